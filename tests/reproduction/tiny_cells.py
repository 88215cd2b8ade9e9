"""Small cells on the digits dataset, which needs no download."""

from reproduction.cells import Setup
from reproduction.experiments import Row, RowSpec, public_runs

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
    return public_runs(seeds)


SEED_0 = public(0)


def spec(candidates, select=SEED_0, runs=SEED_0):
    row = Row("table1", "paper", "digits", candidates[0].method)
    return RowSpec(row, "full", tuple(candidates), select, runs)


#: Settings are compared with two seeds, and the selected one runs with four.
TWO_STAGES = spec(
    [linear(alpha=alpha, hidden=hidden) for alpha in (1, 10) for hidden in (8, 16)],
    select=public(0, 1),
    runs=public(0, 1, 2, 3),
)
