"""Cells: equality, hashing and JSON."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.cells import PUBLIC, Cell, Run, Setup, Split

CELL = Setup.of("gcn", "cora", layers=2, dropout=0.5, init="gpca", later_of_ties=False).cell(
    Split(random_seed=3), 7
)


def test_json_of_a_cell_is_stable():
    """A change of this form would make existing journals unreadable."""
    assert CELL.to_json() == {
        "method": "gcn",
        "dataset": "cora",
        "split": {"random_seed": 3},
        "seed": 7,
        "options": {"dropout": 0.5, "init": "gpca", "later_of_ties": False, "layers": 2},
    }


def test_integer_and_float_options_give_equal_cells():
    one = Setup.of("gpca", "cora", alpha=1, beta=0, C=0.3)
    other = Setup.of("gpca", "cora", C=0.3, beta=0.0, alpha=1.0)
    assert one == other
    assert hash(one) == hash(other)
    assert one.cell(PUBLIC, 0).to_json() == other.cell(PUBLIC, 0).to_json()
    assert one != Setup.of("gpca", "cora", alpha=1.5, beta=0, C=0.3)


names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(
    lambda name: name not in ("cls", "method", "dataset")
)
splits = (
    st.just(PUBLIC)
    | st.builds(Split, random_seed=st.integers(0, 99))
    | st.builds(Split, labels_per_class=st.integers(1, 20))
)
values = st.text() | st.integers(-9, 10**9) | st.booleans() | st.none() | st.floats(-1e9, 1e9)


@settings(deadline=None)
@given(st.dictionaries(names, values), splits, st.integers(0, 2**40), st.randoms())
def test_cells_round_trip_in_any_order_of_options(options, split, seed, random):
    cell = Setup.of("gcn", "cora", **options).cell(split, seed)
    shuffled = list(options.items())
    random.shuffle(shuffled)
    again = Setup.of("gcn", "cora", **dict(shuffled)).cell(split, seed)
    for other in (again, Cell.from_json(cell.to_json()), pickle.loads(pickle.dumps(cell))):
        assert other == cell
        assert hash(other) == hash(cell)
        assert other.to_json() == cell.to_json()


@pytest.mark.parametrize(
    "other",
    [
        Setup.of("gpcanet", "cora", layers=2).cell(PUBLIC, 0),
        Setup.of("gcn", "pubmed", layers=2).cell(PUBLIC, 0),
        Setup.of("gcn", "cora", layers=3).cell(PUBLIC, 0),
        Setup.of("gcn", "cora", layers=2, hidden=9).cell(PUBLIC, 0),
        Setup.of("gcn", "cora").cell(PUBLIC, 0),
        Setup.of("gcn", "cora", layers=2).cell(Split(random_seed=0), 0),
        Setup.of("gcn", "cora", layers=2).cell(PUBLIC, 1),
    ],
)
def test_any_difference_gives_another_cell(other):
    cell = Setup.of("gcn", "cora", layers=2).cell(PUBLIC, 0)
    assert cell != other
    assert cell.to_json() != other.to_json()


def test_options_are_found_by_name():
    setup = CELL.setup
    assert (setup["layers"], setup.get("alpha"), setup.get("alpha", 3)) == (2, None, 3)
    assert setup.subset("layers", "init", "alpha") == {"init": "gpca", "layers": 2}
    with pytest.raises(KeyError):
        setup["alpha"]


@pytest.mark.parametrize(
    ("split", "kind", "json"),
    [
        (PUBLIC, "public", {}),
        (Split(random_seed=0), "random", {"random_seed": 0}),
        (Split(labels_per_class=5), "fewer labels", {"labels_per_class": 5}),
    ],
)
def test_kind_and_json_of_splits(split, kind, json):
    assert split.kind == kind
    assert Run(split, 4).to_json() == {"split": json, "seed": 4}
    assert Run.from_json({"split": json, "seed": 4}) == Run(split, 4)
