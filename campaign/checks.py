"""The checks of the part *truth* and their shares."""

from __future__ import annotations

from . import truth
from .distributed import check_distributed
from .inputs import Rng, choose

#: Checks and the share of cases that they get.
CHECKS = (
    (truth.check_gpca, 8),
    (truth.check_truncation, 2),
    (truth.check_transform, 3),
    (truth.check_path, 3),
    (truth.check_permutation, 2),
    (truth.check_imputer, 2),
    (truth.check_graph, 3),
    (truth.check_saved_model, 1),
    (truth.check_predictors, 1),
    (check_distributed, 1),
)


def check_case(rng: Rng) -> str:
    """One case of a random check."""
    checks = [check for check, share in CHECKS for _ in range(share)]
    return str(choose(rng, *checks)(rng))
