"""Bad files: each is one sentence that names the file, and the line where there are lines.

To add a case, append a row to a table: (id, files and options, pattern of the message). Files
that a case does not give are good ones.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from own_files import EDGES, FEATURES, LABELS, load, npy, parquet

from gpcanet.errors import DataError, InputError

E3 = "source,target\n0,1\n1,2\n"

ROWS = [
    ("too few values", {"features": FEATURES + "w,1\n"},
     r"features\.csv, line 5: 2 cells, but the first row has 3"),
    ("too many values", {"features": FEATURES + "w,1,2,3\n"},
     r"line 5: 4 cells, but the first row has 3"),
    ("too few values after blank lines", {"features": "\n\nid,a,b\n\nx,1,2\n\n\ny,3\n"},
     r"features\.csv, line 8: 2 cells, but the first row has 3"),
    ("too few values, Windows", {"features": (FEATURES + "\nw,1\n").replace("\n", "\r\n")},
     r"line 6: 2 cells, but the first row has 3"),
    ("too few values, old Mac", {"features": (FEATURES + "\nw,1\n").replace("\n", "\r")},
     r"line 6: 2 cells, but the first row has 3"),
    ("too few values after a line end in quotes",
     {"features": 'id,a,b\n"x\n\n""q",1,2\ny"y,1,2\n"""z""",1,2\nw,1\n'},
     r"line 7: 2 cells, but the first row has 3"),
    ("quote that never ends", {"features": 'id,a,b\nx,1,2\n"y,1,2\nz,1,2\n'}, r"features\.csv"),
    ("too few values without a header", {"features": npy(np.eye(3)), "edges": "0,1\n\n1\n"},
     r"edges\.csv, line 3: 1 cell, but the first row has 2"),
]  # fmt: skip

NUMBERS = [
    ("text among numbers", {"features": FEATURES + "\nw,1,hello\n"},
     r"features\.csv, line 6: 'hello' in column 'b' is not a number; correct it, ignore"),
    ("column of text", {"features": "id,a,t\nx,1,u\ny,2,v\nz,3,w\n"},
     r"line 2: 'u' in column 't' is not a number; correct it, ignore"),
    ("several columns of text", {"features": "id,a,t,u\nx,1,p,q\ny,2,p,q\nz,3,p,q\n"},
     r"line 2: 'p' in column 't' is not a number; .* as the label \(also text: 'u'\)$"),
    ("many columns of text", {"features": parquet(**{n: list("xyz") for n in ("id", *"abcdefg")})},
     r"column 'a' has type string, .*\(also text: 'b', 'c', 'd', 'e' and 2 more\)$"),
    ("column of text in Parquet", {"features": parquet(id=list("xyz"), t=["u", "v", "w"])},
     r"features\.parquet: column 't' has type string, not numbers; correct it, ignore"),
    ("decimal comma", {"features": "id;a\nx;1\ny;1,5\nz;2\n"}, r"line 3: '1,5' in column 'a' is"),
    ("dates", {"features": "id,a\nx,2020-01-01\ny,2020-01-02\nz,2020-01-03\n"},
     r"column 'a' has type date32\[day\], not numbers"),
    *[(f"feature {value!r}", {"features": f"id,a,b\nx,1,2\n\ny,{value},4\nz,1,2\n"},
       r"features\.csv, line 4: the number in column 'a' is missing; fill it in")
      for value in ("", "nan", "NA", "NULL")],
    ("null in Parquet", {"features": parquet(id=list("xyz"), a=[1.0, None, 2.0])},
     r"features\.parquet, row 1: the number in column 'a' is missing"),
    ("null in a list", {"features": parquet(id=list("xyz"), a=[[1.0, 2], [3, 4], [None, 5]])},
     r"row 2: the number in column 'a' is missing"),
    ("null for a list", {"features": parquet(id=list("xyz"), a=[[1.0, 2], None, [4, 5]])},
     r"row 1: the number in column 'a' is missing"),
    ("lists of two lengths", {"features": parquet(id=list("xyz"), a=[[1.0], [3], [4, 5]])},
     r"row 2: column 'a' has 2 values, but 1 in the first row"),
    ("lists of text", {"features": parquet(id=list("xyz"), a=[["u"], ["v"], ["w"]])},
     r"column 'a' has type string, not numbers"),
    *[(f"weight {value}", {"edges": f"source,target,weight\nx,y,1\n\ny,z,{value}\n"},
       rf"edges\.csv, line 4: weight {value}(\.0)? must be finite and at least 0")
      for value in ("-1", "inf", "-inf")],
    *[(f"weight {value!r}", {"edges": f"source,target,weight\nx,y,1\n\ny,z,{value}\n"},
       r"edges\.csv, line 4: the number in column 'weight' is missing") for value in ("", "nan")],
    ("weight of text", {"edges": "source,target,w\nx,y,1\ny,z,x\n", "weight": "w"},
     r"edges\.csv, line 3: 'x' in column 'w' is not a number"),
    ("NaN weight in Parquet", {"edges": parquet(source=["x"], target=["y"], weight=[np.nan])},
     r"edges\.parquet, row 0: weight nan must be finite"),
]  # fmt: skip

IDS = [
    ("no id", {"features": FEATURES + "\n,1,2\n"},
     r"features\.csv, line 6: the node id in col.*'id'"),
    ("no id in quotes", {"features": FEATURES + '"",1,2\n'}, r"line 5: the node id in column 'id'"),
    ("no end", {"edges": EDGES + "x,\n"}, r"edges\.csv, line 4: the node id in column 'target'"),
    ("null id in Parquet", {"features": parquet(id=["x", None, "z"], a=[1, 2, 3])},
     r"features\.parquet, row 1: the node id in column 'id'"),
    ("missing among floats", {"edges": parquet(source=[1.0, None], target=[2.0, 3.0])},
     r"edges\.parquet, row 1: the node id in column 'source'"),
    ("id twice", {"features": FEATURES + "\nx,1,2\n"},
     r"features\.csv, line 6: node 'x' occurs twice"),
    ("labelled twice", {"labels": LABELS + "\nx,red\n"},
     r"labels\.csv, line 5: node 'x' occurs twice"),
    ("labelled twice, once with nothing", {"labels": "id,label\nx,\nx,red\n"}, r"line 3: node 'x'"),
    ("edge to nowhere", {"edges": EDGES + "\nx,q\n"},
     r"edges\.csv, line 5: node 'q' is not in .*features\.csv \(1 unknown in all\); add it"),
    ("a cell without end", {"features": "id,a\nx,'" + "b" * 5000 + "\n"},
     r"b{150,199}\.\.\. in column 'a'"),
    ("an id without end", {"edges": EDGES + "\nx," + "q" * 5000 + "\n"},
     r"node 'q{150,199}\.\.\. is not in"),
    ("edges to nowhere", {"edges": EDGES + "\nx,q\nr,x\nx,q\n"},
     r"edges\.csv, line 5: node 'q' is not in .*features\.csv \(2 unknown in all\); add it"),
    ("label of nobody", {"labels": LABELS + "q,red\n"}, r"labels\.csv, line 4: node 'q' is not in"),
    ("edge beyond the rows", {"features": npy(np.eye(3)), "edges": E3 + "0,3\n"},
     r"edges\.csv, line 4: node 3 is not in .*features\.npy"),
    ("edge before the rows", {"features": npy(np.eye(3)), "edges": E3 + "-1,2\n"},
     r"edges\.csv, line 4: node -1 is not in .*features\.npy"),
    ("names for rows", {"features": npy(np.eye(3))},
     r"features\.npy has no node ids \(rows count as 0, 1, \.\.\.\) but .*edges\.csv has text"),
    ("integers against text", {"features": parquet(id=[1, 2, 7], a=[1, 2, 3]),
                               "edges": "source,target\n1,2\n2,007\n"},
     r"features\.parquet has integers but .*edges\.csv has text .*'target', such as '007'"),
    ("text against integers", {"edges": parquet(source=[1], target=[2])},
     r"edges\.parquet has integers but .*features\.csv has text for node ids .*such as 'x'"),
    ("007 is not 7", {"features": "id,a\n007,1\n6,2\n8,3\n", "edges": "source,target\n7,6\n"},
     r"edges\.csv, line 2: node '7' is not in"),
    ("1.0 among integers", {"features": parquet(id=[1, 2, 3], a=[1, 2, 3]),
                            "edges": "source,target\n1.0,2\n2,3\n"},
     r"edges\.csv has text .* such as '1\.0'"),
    ("integers beyond 64 bits",
     {"features": parquet(id=np.array([1, 2, 2**63], np.uint64), a=[1, 2, 3])},
     r"features\.parquet: column 'id' has integers beyond 64 bits; write them as text"),
    ("floats beyond 64 bits", {"features": parquet(id=[1e300, 2, 3], a=[1, 2, 3])},
     r"integers of 9,007,199,254,740,992 or more as double"),
    ("infinite id", {"features": parquet(id=[np.inf, 2, 3], a=[1, 2, 3])},
     r"of 9,007,199,254,740,992 or more as double"),
    ("fractions", {"features": parquet(id=[0.5, 2, 3], a=[1, 2, 3])},
     r"column 'id' has type double; node ids must be integers or text"),
    ("truths", {"features": parquet(id=[True, False], a=[1, 2])},
     r"column 'id' has type bool; node ids"),
]  # fmt: skip

COLUMNS = [
    ("no source", {"edges": "from,to\nx,y\n"},
     r"edges\.csv has no column 'source'; it has 'from', 'to'"),
    ("of many", {"edges": ",".join(f"c{i}" for i in range(12)) + "\n" + ",".join("x" * 12)},
     r"it has 'c0', .*'c7' and 4 more; give"),
    ("no weight", {"weight": "w"}, r"edges\.csv has no column 'w'; it has 'source', 'target'"),
    ("no id", {"id_column": "key"}, r"features\.csv has no column 'key'; it has 'id', 'a', 'b'"),
    ("no id in labels",
     {"features": FEATURES.replace("id", "key"), "labels": LABELS.replace("id", "name"),
      "id_column": "key"},
     r"labels\.csv has no column 'key'; it has 'name', 'label'"),
    ("two labels", {"features": "id,a,label,labels\nx,1,r,s\ny,2,r,s\nz,3,g,s\n"},
     r"features\.csv has several columns that may be the label; name one of 'label', 'labels'$"),
    ("two splits", {"features": "id,a,split,Split\nx,1,test,\ny,2,,\nz,3,,\n"},
     r"features\.csv has several columns that may be the split; name one of 'split', 'Split'$"),
    ("categories", {"features": FEATURES, "one_hot": ["q"]}, r"features\.csv has no column 'q'"),
    ("encoded id", {"features": FEATURES, "one_hot": ["id"]},
     r"features\.csv: column 'id' is not a feature and cannot be encoded"),
    ("text in Parquet", {"features": parquet(id=["x", "y", "z"], kind=["u", "v", "u"])},
     r"features\.parquet: column 'kind' has type string, not numbers; correct it, ignore"),
    ("no label", {"labels": LABELS, "label_column": "q"}, r"labels\.csv has no column 'q'"),
    ("no label in features", {"label_column": "q"},
     r"features\.csv has no column 'q'; it has 'id', 'a"),
    ("no split", {"labels": LABELS, "split_column": "q"}, r"labels\.csv has no column 'q'"),
    ("nothing to ignore", {"ignore": ["q"]}, r"features\.csv has no column 'q'"),
    ("twice", {"features": "id,a,a\nx,1,2\n"},
     r"features\.csv: column 'a' occurs twice; rename one"),
    ("ids twice", {"features": "id,id,a\nx,1,2\n"}, r"features\.csv: column 'id' occurs twice"),
    ("only ids", {"features": "id\nx\ny\nz\n"}, r"features\.csv has no column of features"),
    ("only ids in labels", {"labels": "id\nx\n"}, r"labels\.csv has no column of labels"),
    ("which label", {"labels": "id,p,q\nx,1,2\n"},
     r"labels\.csv has several columns .* name one of 'p', 'q'$"),
    ("four without a header", {"edges": "0,1,2,3\n"}, r"edges\.csv has 4 columns and no header"),
    ("one without a header", {"edges": "0\n1\n"}, r"edges\.csv has 1 columns and no header"),
]  # fmt: skip

EMPTY = [
    (f"{what} {name}", {name: text}, rf"{name}\.csv is empty; give a header and at least one row")
    for name in ("features", "edges", "labels")
    for what, text in {"no bytes": "", "only blank lines": "\n\r\n\n"}.items()
] + [
    ("only a header", {"features": "id,a,b\n"},
     r"features\.csv has no row; give at least one"),
    ("only a header, no line end", {"features": "id,a,b"}, r"features\.csv has no row"),
    ("only a BOM", {"features": "\ufeff"}, r"features\.csv"),
    ("Parquet without rows", {"features": parquet(id=np.array([], int), a=np.array([]))},
     r"features\.parquet has no row"),
    ("Parquet without columns", {"features": parquet()}, r"features\.parquet has no "),
    ("array without rows", {"features": npy(np.zeros((0, 2)))}, r"features\.npy has no row"),
    ("array without columns", {"features": npy(np.zeros((3, 0)))}, r"features\.npy has no column"),
]  # fmt: skip

LATIN = "é".encode("latin-1")
NOT_UTF8 = [
    ("in the header", {"features": b"\nid,a,%b\nx,1,2\n" % LATIN},
     r"features\.csv, line 2: not UTF-8"),
    ("in an id", {"features": FEATURES.encode() + b"\n%b,1,2\n" % LATIN},
     r"line 6: not UTF-8 text; con"),
    ("in a feature", {"features": FEATURES.encode() + b"\nw,1,%b\n" % LATIN},
     r"line 6: not UTF-8 text"),
    ("in an edge", {"edges": EDGES.encode() + b"x,%b\n" % LATIN}, r"edges\.csv, line 4: not UTF-8"),
    ("in a label", {"labels": LABELS.encode() + b"z,%b\n" % LATIN},
     r"labels\.csv, line 4: not UTF-8"),
    ("UTF-16", {"features": FEATURES.encode("utf-16")}, r"features\.csv is not UTF-8 text"),
    ("UTF-16 without a BOM", {"features": FEATURES.encode("utf-16-be")}, r"is not UTF-8 text"),
    ("UTF-32", {"features": FEATURES.encode("utf-32")}, r"is not UTF-8 text"),
    ("NUL in the header", {"features": "id,a\0\nx,1\n"}, r"is not UTF-8 text"),
    ("NUL in a number", {"features": FEATURES + "w,1,2\0\n"},
     r"line 5: '2\\x00' in column 'b' is not"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "pattern"),
    [pytest.param(case, pattern, id=f"{kind}: {name}")
     for kind, table in {"rows": ROWS, "numbers": NUMBERS, "ids": IDS, "columns": COLUMNS,
                         "empty": EMPTY, "not UTF-8": NOT_UTF8}.items()
     for name, case, pattern in table],
)  # fmt: skip
def test_invalid_file_raises_data_error(tmp_path, case, pattern):
    with pytest.raises(DataError, match=pattern) as caught:
        load(tmp_path, **case)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"source": "target"}, "source and target are both 'target'"),
        ({"weight": "source"}, "source and weight are both 'source'"),
        ({"id_column": "a", "label_column": "a"}, "id_column and label_column are both 'a'"),
        ({"label_column": "a", "split_column": "a"}, "label_column and split_column are both 'a'"),
    ],
)
def test_two_parameters_cannot_name_one_column(tmp_path, options, named):
    with pytest.raises(InputError, match=f"^{named}; name two different columns$"):
        load(tmp_path, **options)


# -- deep inside a file that pyarrow reads in blocks, by several threads --------------------------

N_ROWS, DEEP = 250_000, 200_000


def deep_file(bad):
    rows = [b"n%d,%d.5,%d.25" % (i, i % 7, i % 11) for i in range(N_ROWS)]
    rows[DEEP] = bad
    return b"id,a,b\n\n" + b"\n".join(rows) + b"\n"


@pytest.mark.parametrize(
    ("bad", "pattern"),
    [
        (b"q,1", r"2 cells, but the first row has 3"),
        (b"q,1,oops", r"'oops' in column 'b' is not a number"),
        (b"q,1,", r"the number in column 'b' is missing"),
        (b",1,2", r"the node id in column 'id'"),
        (b"n5,1,2", r"node 'n5' occurs twice"),
        (b"\xff,1,2", r"not UTF-8 text"),
        (b"q,1,\xff", r"not UTF-8 text"),
    ],
)
def test_line_number_is_correct_in_a_large_file(tmp_path, bad, pattern):
    features = deep_file(bad)
    assert len(features) > 3 * 2**20
    with pytest.raises(DataError, match=rf"features\.csv, line {DEEP + 3}: {pattern}"):
        load(tmp_path, features=features, edges="source,target\nn1,n2\n")


# -- places and names ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["features", "edges", "labels"])
@pytest.mark.parametrize("suffix", [".txt", "", ".gz", ".xlsx"])
def test_unknown_suffix_raises_data_error(tmp_path, name, suffix):
    path = tmp_path / f"table{suffix}"
    path.write_text(FEATURES)
    known = r"must be a \.csv, \.tsv, \.parquet, \.pq, \.npy, \.npz.* file, not "
    with pytest.raises(DataError, match=rf"{name} {known}"):
        load(tmp_path, **{name: path})


@pytest.mark.parametrize("name", ["features", "edges", "labels"])
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "npy", "npz", "mtx"])
def test_missing_file_or_folder_raises_data_error(tmp_path, name, suffix):
    path = tmp_path / f"there.{suffix}"
    with pytest.raises(DataError, match=rf"there\.{suffix} does not exist; check the name"):
        load(tmp_path, **{name: path})
    path.mkdir()
    with pytest.raises(DataError, match=rf"there\.{suffix} contains no file"):
        load(tmp_path, **{name: path})


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy", "npz", "mtx"])
def test_too_long_file_name_raises_data_error(tmp_path, suffix):
    with pytest.raises(DataError, match=re.escape(f".{suffix} is not readable: ")):
        load(tmp_path, features=tmp_path / f"{'x' * 300}.{suffix}")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy", "npz", "mtx"])
def test_file_without_permission_raises_data_error(tmp_path, suffix):
    path = Path(tmp_path / f"secret.{suffix}")
    path.write_text(FEATURES)
    path.chmod(0)
    with pytest.raises(DataError, match=rf"secret\.{suffix} is not (a )?readable"):
        load(tmp_path, features=path)
