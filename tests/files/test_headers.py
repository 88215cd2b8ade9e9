"""The first row of a CSV: a header, a row, or a question, and never silently the wrong one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from own_files import load, npy
from properties import examples

from gpcanet.errors import DataError

#: Files of one example may overwrite those of another.
SHARED = [HealthCheck.function_scoped_fixture]

CELLS = st.sampled_from(
    [st.floats(-100, 100), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, 2.0])]
)


@st.composite
def frames(draw):
    """A table of numbers under names that are numbers: all of them, some, or years."""
    n_rows, n_columns = draw(st.integers(2, 6)), draw(st.integers(1, 6))
    columns = [
        draw(st.lists(draw(CELLS), min_size=n_rows, max_size=n_rows)) for _ in range(n_columns)
    ]
    begin = draw(st.sampled_from([0, 0, 1, 2001]))
    names = range(begin, begin + n_columns)
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def path_over(n_nodes):
    """Edges that name every node by its position."""
    return "source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(n_nodes - 1))


@examples(100, suppress_health_check=SHARED)
@given(frame=frames(), header=st.booleans(), index=st.booleans())
def test_pandas_csv_is_read_correctly_or_ambiguous(tmp_path, frame, header, index):
    assume(header or not index)  # ids without a header cannot be distinguished from features
    text, edges = frame.to_csv(index=index, header=header), path_over(len(frame))
    try:
        data = load(tmp_path, features=text, edges=edges)
    except DataError as error:
        message = str(error)
    else:
        if data.X.shape != frame.shape:  # a header of other integers above integers: a row
            assert frame.columns[0] != 0
            assert "features.csv has one row more than" in " ".join(data.notes)
            data = replace(data, X=data.X[1:])
        np.testing.assert_array_equal(data.X, frame.to_numpy(float))
        return
    # A row 0, 1, 2, ... of data was taken for a header, and the edges name one node more.
    assert "may be a header or the features" in message or "one row is missing" in message
    assert not index
    assert not (header and frame.columns[0] == 0 and frame.shape[1] >= 3)


@pytest.mark.parametrize("n_columns", [3, 12])
@pytest.mark.parametrize("separator", [",", ";", ", "])
def test_consecutive_numbers_are_a_header(tmp_path, n_columns, separator):
    X = np.random.default_rng(0).normal(size=(50, n_columns)).round(3)
    names = separator.join(map(str, range(n_columns)))
    rows = "".join(separator.join(map(str, row)) + "\n" for row in X.tolist())
    data = load(tmp_path, features=f"{names}\n{rows}", edges=path_over(50))
    np.testing.assert_array_equal(data.X, X)
    assert [name.strip() for name in data.feature_names] == [str(i) for i in range(n_columns)]
    assert data.notes[0].endswith("features.csv: the first row (0, 1, 2, ...) is the header")


@pytest.mark.parametrize(
    "features",
    [
        "0\n0.5\n1.5\n",
        "0,1\n0.5,2\n1,1\n",
        "2001,2002,2003\n0.5,1.5,2.5\n0.5,1.5,2.5\n",
        "7\n0.5\n",
    ],
)
def test_ambiguous_first_row_raises_data_error(tmp_path, features):
    with pytest.raises(DataError, match=r"features\.csv: the first row \(.*\) may be a header or"):
        load(tmp_path, features=features, edges="source,target\n0,1\n")
    names = ",".join(f"x{i}" for i in range(features.partition("\n")[0].count(",") + 1))
    data = load(tmp_path, features=f"{names}\n{features}", edges="source,target\n0,1\n")
    assert data.graph.n_nodes == features.count("\n")


@st.composite
def number_rows(draw):
    """Rows of numbers with decimal commas in the first, as text between semicolons or quoted."""
    number = st.sampled_from(["1,5", "-2,25", "1,234,567", "1.234,5", "2,5e3", "3", "0.5"])
    n_columns = draw(st.integers(2, 4))
    row = st.lists(number, min_size=n_columns, max_size=n_columns)
    first = draw(row.filter(lambda cells: any("," in cell for cell in cells)))
    rows = [first, *draw(st.lists(row, min_size=1, max_size=4))]
    if draw(st.booleans()):
        return "".join(";".join(cells) + "\n" for cells in rows)
    return "".join(",".join(f'"{cell}"' for cell in cells) + "\n" for cells in rows)


@examples(50, suppress_health_check=SHARED)
@given(rows=number_rows(), file=st.sampled_from(["features", "edges", "labels"]))
def test_first_row_of_decimal_commas_is_not_a_header(tmp_path, rows, file):
    files = {"features": npy(np.eye(5)), "edges": "0,1\n", file: rows}
    with pytest.raises(DataError, match=rf"{file}\.csv, line 1: .* is not a number; write decimal"):
        load(tmp_path, **files)


def test_data_row_read_as_header_is_found_by_the_edges(tmp_path):
    features = "0,1,2\n3,4,5\n6,7,8\n"
    with pytest.raises(
        DataError, match=r"node 2 is not in .* if the first row is not a header, add"
    ):
        load(tmp_path, features=features, edges=path_over(3))


def test_header_read_as_data_row_is_noted(tmp_path):
    features = "5,7,9\n3,4,5\n6,7,8\n1,1,2\n"
    noted = "features.csv has one row more than"
    assert noted in " ".join(load(tmp_path, features=features, edges=path_over(3)).notes)
    assert noted not in " ".join(load(tmp_path, features=features, edges=path_over(4)).notes)


def test_positions_that_start_at_one_give_a_hint(tmp_path):
    with pytest.raises(
        DataError, match=r"node 3 is not in .*nodes 0 to 2; these ids seem to start at 1"
    ):
        load(tmp_path, features=npy(np.eye(3)), edges="source,target\n3,1\n1,2\n")
    with pytest.raises(DataError, match=r"node 3 is not in .*\(exactly one row is missing\)"):
        load(tmp_path, features=npy(np.eye(3)), edges="source,target\n3,0\n1,2\n")
    with pytest.raises(DataError, match=r"node 9 is not in .* pass drop_unknown=True$"):
        load(tmp_path, features=npy(np.eye(3)), edges="source,target\n9,1\n1,2\n")


# -- edges and labels -----------------------------------------------------------------------------


def test_first_row_0_1_is_an_edge_and_is_noted(tmp_path):
    data = load(tmp_path, features=npy(np.eye(4)), edges="0,1\n1,2\n2,3\n")
    assert data.graph.n_edges == 3
    assert data.notes[-1].endswith("edges.csv has no header: the first row (0, 1) is an edge")
    quiet = load(tmp_path, features=npy(np.eye(4)), edges="1,2\n0,1\n2,3\n")
    assert len(quiet.notes) == len(data.notes) - 1


def test_weighted_edges_with_numbered_header_raise_data_error(tmp_path):
    edges = pd.DataFrame([[0, 1, 0.5], [1, 2, 0.25]]).to_csv(index=False)
    with pytest.raises(DataError, match=r"edges\.csv: the first row \(0, 1, 2\) may be a header"):
        load(tmp_path, features=npy(np.eye(3)), edges=edges)
    data = load(tmp_path, features=npy(np.eye(3)), edges="0,1,2.0\n1,2,0.25\n")
    assert data.graph.n_edges == 2


def test_labels_with_numbered_header(tmp_path):
    y = pd.Series([4, 5, 4])
    files = {"features": npy(np.eye(3)), "edges": "1,2\n"}
    with pytest.raises(DataError, match=r"4 labels .*3 nodes; .*if the first row is a header"):
        load(tmp_path, labels=y.to_csv(index=False), **files)
    for text in (y.to_csv(), y.to_csv(header=False), y.to_csv(index=False, header=False)):
        data = load(tmp_path, labels=text, **files)
        assert data.class_names[data.y].tolist() == [4, 5, 4]
    pairs = pd.DataFrame([[0, 4], [1, 5]])
    with pytest.raises(DataError, match="occurs twice"):
        load(tmp_path, labels=pairs.to_csv(index=False), **files)
    data = load(tmp_path, labels="0,1\n2,1\n", **files)
    assert "labels.csv has no header: the first row (0, 1) is a label" in " ".join(data.notes)
