"""Options of ``gpcanet explore``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..utils.atomic import check_distinct_files, check_target
from .method_options import Alphas, Normalization
from .option_groups import option
from .options import METHOD, RUN, Force, Input


@dataclass(frozen=True)
class ExploreSettings:
    """Settings of ``explore``; fields are named as the parameters of GPCAPath."""

    n_components: int | None = option(
        METHOD, "--components", "-k", help="Number of components [64]."
    )
    alphas: Alphas = None
    betas: list[float] | None = option(
        METHOD,
        "--beta",
        "-b",
        metavar="<float>",
        help="Weight of labels, 0 to 1; repeat it for several [0, 0.2 and 0.5].",
    )
    normalization: Normalization = None


@dataclass(frozen=True)
class PageSettings:
    """What the page of ``explore`` shows."""

    layout: str = option(
        METHOD,
        "--layout",
        default="auto",
        help="pca (first two components), tsne, or auto: tsne up to 5,000 nodes.",
    )
    max_nodes: int = option(
        METHOD,
        "--max-nodes",
        default=200_000,
        help="Largest number of nodes shown; larger graphs are sampled.",
    )


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
        check_target(self.output, overwrite=self.force)
        check_distinct_files([self.output], data.files.values())
