"""Options for the files that a command writes, and for the saved model it applies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..utils.atomic import check_distinct_files, check_target
from .option_groups import option
from .options import FILES, METHOD, RUN, TRAINING, Force, Input


@dataclass(frozen=True)
class OutputFiles:
    """Files that ``embed``, ``classify``, ``regress`` and ``train`` write."""

    output: Path | None = option(
        FILES, "--output", "-o", help="File of results: .parquet, .csv, .csv.gz, .npz or .h5ad."
    )
    force: Force = False
    save_model: Path | None = option(METHOD, "--save-model", help="Save the model (.safetensors).")

    def check(self, data: Input, *others: Path | None) -> None:
        """Raise before any work is done if the results could not be written."""
        from ..files import check_id_name, check_output, check_outside_of_inputs

        if self.output is not None:
            check_output(self.output, overwrite=self.force)
            check_id_name(data.id_name, self.output)
        self.check_save_model()
        outputs = [self.output, self.save_model, *others]
        check_distinct_files(outputs, data.files.values())
        check_outside_of_inputs(outputs, data.files.values())

    def check_any(self) -> None:
        """Raise if nothing would be written."""
        if not self.written:
            raise InputError("nothing to write: give --output, --save-model or both")

    def check_save_model(self) -> None:
        """Raise if the model could not be saved."""
        if self.save_model is not None:
            if self.save_model.suffix != ".safetensors":
                raise InputError(f"{self.save_model}: models are saved as .safetensors")
            check_target(self.save_model, overwrite=self.force)

    def result_options(self, data: Input) -> dict[str, Any]:
        """Keyword arguments of the functions of ``gpcanet.files`` that write results."""
        source = data.files["features"]
        return {"id_name": data.id_name, "overwrite": self.force, "source": source}

    @property
    def written(self) -> list[str]:
        return [str(path) for path in (self.output, self.save_model) if path is not None]


@dataclass(frozen=True)
class TrainingFiles(OutputFiles):
    """Files that ``train`` writes."""

    checkpoint: Path | None = option(
        TRAINING,
        "--checkpoint",
        help="File of the training state (.safetensors); resumes from it if it exists.",
    )

    def check_training_files(self, data: Input) -> None:
        """Raise before any work is done if a file could not be written."""
        self.check(data, self.checkpoint)
        if self.checkpoint is not None:
            if self.checkpoint.suffix != ".safetensors":
                raise InputError(f"{self.checkpoint}: checkpoints are saved as .safetensors")
            check_target(self.checkpoint, overwrite=True)


@dataclass(frozen=True)
class ModelFiles(OutputFiles):
    """Files that ``embed``, ``classify`` and ``regress`` write, and the saved model they apply."""

    model: Path | None = option(
        METHOD, "--model", help="Apply this saved model instead of fitting one."
    )
    keep_training_nodes: bool = option(
        METHOD,
        "--keep-training-nodes",
        default=False,
        help="Save features and graph with the model, so that it can be applied to new nodes.",
    )
    memory_limit: str | None = option(
        RUN,
        "--memory-limit",
        metavar="<size>",
        help="Largest memory beyond graph and features, such as 1.5GiB.",
    )

    def check_model_files(self, data: Input, given: list[str]) -> None:
        """Raise before any work is done; ``given`` are the options that belong to a new model."""
        if self.model is not None and self.save_model is not None:
            raise InputError(
                "--model applies a saved model and --save-model saves a new one; give one of them"
            )
        if self.model is not None and given:
            raise InputError(f"{self.model} has its own settings; leave out {', '.join(given)}")
        if self.keep_training_nodes and self.save_model is None:
            raise InputError("--keep-training-nodes applies to a saved model; give --save-model")
        self.check(data)
        check_distinct_files([self.output, self.save_model], [self.model])


@dataclass(frozen=True)
class PageFile:
    """The page that ``explore`` writes."""

    output: Path = option(
        RUN, "--output", "-o", default=Path("explore.html"), help="File of the page: .html."
    )
    force: Force = False
    open_page: bool = option(RUN, "--open", default=False, help="Show the page in the web browser.")

    def check(self, data: Input) -> None:
        """Raise before any work is done if the page could not be written."""
        if self.output.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"{self.output}: the page must be an .html file")
        from ..files import check_outside_of_inputs

        check_target(self.output, overwrite=self.force)
        check_distinct_files([self.output], data.files.values())
        check_outside_of_inputs([self.output], data.files.values())
