"""Options of ``gpcanet explore``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..errors import InputError
from ..utils.atomic import check_distinct_files, check_target
from .method_options import Alphas, Normalization
from .options import METHOD, RUN, Force, Input, option


@dataclass(frozen=True)
class ExploreSettings:
    """Settings of ``explore``; fields are named as the parameters of GPCAPath."""

    n_components: Annotated[
        int | None, option(METHOD, "--components", "-k", help="Number of components [64].")
    ] = None
    alphas: Alphas = None
    betas: Annotated[
        list[float] | None,
        option(
            METHOD,
            "--beta",
            "-b",
            metavar="<float>",
            help="Weight of labels, 0 to 1; repeat it for several [0, 0.2 and 0.5].",
        ),
    ] = None
    normalization: Normalization = None


@dataclass(frozen=True)
class PageSettings:
    """What the page of ``explore`` shows."""

    layout: Annotated[
        str,
        option(
            METHOD,
            "--layout",
            help="pca (first two components), tsne, or auto: tsne up to 5,000 nodes.",
        ),
    ] = "auto"
    max_nodes: Annotated[
        int,
        option(
            METHOD, "--max-nodes", help="Largest number of nodes shown; larger graphs are sampled."
        ),
    ] = 200_000


@dataclass(frozen=True)
class PageFile:
    """The page that ``explore`` writes."""

    output: Annotated[Path, option(RUN, "--output", "-o", help="File of the page: .html.")] = Path(
        "explore.html"
    )
    force: Force = False
    open_page: Annotated[bool, option(RUN, "--open", help="Show the page in the web browser.")] = (
        False
    )

    def check(self, data: Input) -> None:
        """Raise before any work is done if the page could not be written."""
        if self.output.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"{self.output}: the page must be an .html file")
        check_target(self.output, overwrite=self.force)
        check_distinct_files([self.output], data.files.values())
