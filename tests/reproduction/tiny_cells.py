"""Cells on digits, which need no download and take little time."""

from reproduction.cells import Setup
from reproduction.entries import Entry

LINEAR = {
    "normalization": "sym", "n_iter": 5, "ghost": "paper", "triangle": "both", "beta": 0,
    "head": "linear", "lr": 0.1, "epochs": 20, "eval_every": 5, "later_of_ties": False,
    "dropouts": 1, "weight_decay": 5e-4, "dropout": 0.5, "alpha": 5, "hidden": 8,
}  # fmt: skip
LOGISTIC = {
    "normalization": "sym", "ghost": "balanced", "beta": 0, "head": "logistic", "scaling": "none",
    "C": 1, "unit_rows": False, "alpha": 5, "hidden": 8,
}  # fmt: skip


def linear(**options):
    return Setup.of("gpca", "digits", **{**LINEAR, **options})


def logistic(**options):
    return Setup.of("gpca", "digits", **{**LOGISTIC, **options})


def public(*seeds):
    return tuple(("public", seed) for seed in seeds)


SEED_0 = public(0)


def entry(row, candidates, select=SEED_0, runs=SEED_0):
    return Entry("test", "paper", "full", "digits", row, tuple(candidates), select, runs)


#: Settings are compared by two seeds, and the chosen one runs with four.
TWO_STAGES = entry(
    "two stages",
    [linear(alpha=alpha, hidden=hidden) for alpha in (1, 10) for hidden in (8, 16)],
    select=public(0, 1),
    runs=public(0, 1, 2, 3),
)
