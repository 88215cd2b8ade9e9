"""Cells are values, and their JSON lasts."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.cells import Cell, Setup

CELL = Setup.of("gcn", "cora", layers=2, dropout=0.5, init="gpca", later_of_ties=False).cell(
    "random-3", 7
)


def test_the_name_of_a_cell_lasts():
    """Journals are read by later versions: another form makes all of them worthless."""
    assert CELL.to_json() == {
        "method": "gcn",
        "dataset": "cora",
        "split": "random-3",
        "seed": 7,
        "options": {"dropout": 0.5, "init": "gpca", "later_of_ties": False, "layers": 2},
    }


def test_a_number_is_one_value_however_it_is_written():
    one = Setup.of("gpca", "cora", alpha=1, beta=0, C=0.3)
    other = Setup.of("gpca", "cora", C=0.3, beta=0.0, alpha=1.0)
    assert one == other
    assert hash(one) == hash(other)
    assert one.cell("public", 0).to_json() == other.cell("public", 0).to_json()
    assert one != Setup.of("gpca", "cora", alpha=1.5, beta=0, C=0.3)


names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(
    lambda name: name not in ("cls", "method", "dataset")
)
values = st.text() | st.integers(-9, 10**9) | st.booleans() | st.none() | st.floats(-1e9, 1e9)


@settings(deadline=None)
@given(st.dictionaries(names, values), st.text(), st.integers(0, 2**40), st.randoms())
def test_cells_make_the_round_trip_and_their_order_does_not_matter(options, split, seed, random):
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
        Setup.of("gpcanet", "cora", layers=2).cell("public", 0),
        Setup.of("gcn", "pubmed", layers=2).cell("public", 0),
        Setup.of("gcn", "cora", layers=3).cell("public", 0),
        Setup.of("gcn", "cora", layers=2, hidden=9).cell("public", 0),
        Setup.of("gcn", "cora").cell("public", 0),
        Setup.of("gcn", "cora", layers=2).cell("random-0", 0),
        Setup.of("gcn", "cora", layers=2).cell("public", 1),
    ],
)
def test_whatever_differs_makes_another_cell(other):
    cell = Setup.of("gcn", "cora", layers=2).cell("public", 0)
    assert cell != other
    assert cell.to_json() != other.to_json()


def test_options_by_name():
    setup = CELL.setup
    assert (setup["layers"], setup.get("alpha"), setup.get("alpha", 3)) == (2, None, 3)
    assert setup.some("layers", "init", "alpha") == {"init": "gpca", "layers": 2}
    with pytest.raises(KeyError):
        setup["alpha"]
