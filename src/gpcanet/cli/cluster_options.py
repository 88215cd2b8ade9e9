"""Options of ``gpcanet embed`` for stores and distributed runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .option_groups import option
from .options import Input

#: Panel of the help.
CLUSTER = "Larger than memory"


@dataclass(frozen=True)
class ClusterOptions:
    """Where the data is stored, and which workers embed it."""

    store: Path | None = option(
        CLUSTER, "--store", help="Folder of a store, instead of a dataset or files."
    )
    workers: int | None = option(
        CLUSTER, "--workers", min=1, help="Number of worker processes; the data may exceed memory."
    )
    scheduler: str | None = option(
        CLUSTER, "--scheduler", help="Embed by the workers of this Dask scheduler."
    )
    scratch: Path | None = option(
        CLUSTER, "--scratch", help="Folder for the files of the run; all workers see it."
    )
    resume: bool = option(
        CLUSTER, "--resume", default=False, help="Continue the run in the scratch folder."
    )
    plan: bool = option(
        CLUSTER,
        "--plan",
        default=False,
        help="Show memory, bytes and time of the run, and stop; only folders of Parquet files "
        "need --scratch, which keeps their store.",
    )

    @property
    def is_distributed(self) -> bool:
        return self.workers is not None or self.scheduler is not None

    def check(self, data: Input) -> None:
        """Raise if options exclude each other, or need one that is missing."""
        has_input = data.dataset is not None or any(data.files.values())
        if self.store is not None and has_input:
            raise InputError(f"give --store {self.store}, a dataset or files, not several")
        if self.store is not None:  # --id names the column of ids in the results
            data.check_no_file_options(f"--store {self.store}", allowed=("id_column",))
        if self.workers is not None and self.scheduler is not None:
            raise InputError("give --workers (on this machine) or --scheduler, not both")
        if self.is_distributed and self.scratch is None and not self.plan:
            raise InputError(
                "a distributed run needs --scratch, a folder that the client and all workers see"
            )
        given = {"--plan": self.plan, "--resume": self.resume, "--scratch": self.scratch}
        for name, value in given.items():
            if value and not self.is_distributed:
                raise InputError(f"{name} needs workers; give --workers or --scheduler")
