"""Invalid calls: each raises an error with the value, what is allowed, and what to do.

To add a case, append a row to a table: (id, call, exception type, message pattern).
"""

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import gpcanet
from gpcanet import GPCA, GPCAClassifier, GPCAPath, GPCARegressor, Graph, GraphImputer
from gpcanet.errors import UserError

ADJACENCY = nx.to_numpy_array(nx.path_graph(5))
GRAPH = Graph(ADJACENCY)
NAMED = Graph(ADJACENCY, node_ids=list("abcde"))
X = np.random.default_rng(0).normal(size=(5, 3))
PAIRS = [[0, 1], [1, 0]]
TABLE = {"source": ["a", "b"], "target": ["b", "c"]}
DATES = np.array(["2020-01-01", "2020-01-02", "NaT", "2020-01-04", "2020-01-05"], "M8[ns]")


def with_entry(matrix, row, column, value, dtype=float):
    matrix = np.array(matrix, dtype)
    matrix[row, column] = value
    return matrix


def adjacency_with(value):
    """A call of Graph with this weight between nodes 1 and 2."""
    return lambda: Graph(with_entry(ADJACENCY, 1, 2, value))


def edges(*args, **kwargs):
    return lambda: Graph.from_edge_index(*args, **kwargs)


def table(columns, **kwargs):
    return lambda: Graph.from_edges(columns, **kwargs)


def named(*ids):
    return lambda: Graph(ADJACENCY, node_ids=list(ids))


def gpca(**params):
    return lambda: GPCA(**params).fit(X, graph=GRAPH)


def fit(features, y=None, **kwargs):
    return lambda: GPCA(beta=0.0 if y is None else 0.5).fit(features, y, **kwargs)


def classifier(y=(0, 1, -1, 0, 1), *, validation=None, **params):
    return lambda: GPCAClassifier(**params).fit(X, y, graph=GRAPH, validation=validation)


def regressor(y):
    return lambda: GPCARegressor().fit(X, y, graph=GRAPH)


def fitted():
    return GPCA(2).fit(X, graph=GRAPH)


WEIGHTS = [
    ("negative weight", adjacency_with(-2.0), ValueError,
     r"weight -2\.0 of edge \(1, 2\) must be finite and at least 0 \(1 of 8 weights\); drop"),
    ("NaN weight", adjacency_with(np.nan), ValueError, r"weight nan of edge \(1, 2\) must be fin"),
    ("infinite weight", adjacency_with(np.inf), ValueError, r"weight inf of edge \(1, 2\) must be"),
    ("negative weight in a sparse adjacency", lambda: Graph(sp.csc_array(-ADJACENCY)), ValueError,
     r"weight -1\.0 of edge \(0, 1\) must be .* at least 0 \(8 of 8 weights\); drop or correct"),
    ("negative weight of a self-loop", lambda: Graph(with_entry(ADJACENCY, 3, 3, -1)), ValueError,
     r"weight -1\.0 of edge \(3, 3\) must be finite and at least 0"),
    ("NaN weight of an edge", edges(PAIRS, [1, np.nan]), ValueError,
     r"weight nan of edge \(1, 0\) must be finite and at least 0 \(1 of 2 weights\); drop"),
    ("negative weight in a table", table({**TABLE, "weight": [1, -3]}), ValueError,
     r"weight -3 of edge .* must be finite and at least 0 \(1 of 2 weights\)"),
    ("negative weight in networkx",
     lambda: Graph.from_networkx(nx.Graph([(0, 1, {"weight": -1})])), ValueError,
     r"weight -1 of edge \(0, 1\) must be finite and at least 0"),
    ("too few weights", edges(PAIRS, [1.0]), ValueError,
     r"weights of shape \(1,\) must have one value for each of 2 edges"),
    ("weights in a column", edges(PAIRS, [[1.0], [2.0]]), ValueError,
     r"weights of shape \(2, 1\) must have one value for each of 2 edges"),
    ("weights of text", edges(PAIRS, ["x", "y"]), TypeError,
     r"weights of dtype <U1 must be real numbers"),
    ("complex weights", edges(PAIRS, [1j, 1j]), TypeError,
     r"weights of dtype complex128 must be real numbers"),
    ("weights of text in a table", table(pd.DataFrame({**TABLE, "weight": ["1", "2"]})), TypeError,
     r"weights of dtype .* must be real numbers"),
]  # fmt: skip

STRUCTURE = [
    ("adjacency not square", lambda: Graph(np.ones((3, 2))), ValueError,
     r"adjacency of shape \(3, 2\) must be square, .* use Graph\.from_edge_index"),
    ("sparse adjacency not square", lambda: Graph(sp.csr_array((3, 2))), ValueError,
     r"adjacency of shape \(3, 2\) must be square, .* in cross-validation pass a Graph"),
    ("CSR arrays out of range", lambda: Graph.from_csr(np.array([0, 1, 2]), np.array([1, 7])),
     ValueError, r"indptr, indices and weights are not a CSR matrix: .*"),
    ("CSR arrays of different lengths", lambda: Graph.from_csr(
        np.array([0, 1, 2]), np.array([1, 0]), np.array([1.0])), ValueError,
     r"indptr, indices and weights are not a CSR matrix: .*"),
    ("missing date as node id", lambda: Graph(
        np.eye(2), node_ids=np.array(["2020-01-01", "NaT"], "datetime64[D]")), ValueError,
     r"node id None at position 1 is missing"),
    ("adjacency of one dimension", lambda: Graph(np.ones(3)), ValueError,
     r"adjacency of shape \(3,\) must have two dimensions"),
    ("sparse adjacency of one dimension", lambda: Graph(sp.coo_array(np.ones(3))), ValueError,
     r"adjacency of shape \(3,\) must have two dimensions"),
    ("adjacency of three dimensions", lambda: Graph(np.ones((2, 2, 2))), ValueError,
     r"adjacency of shape \(2, 2, 2\) must have two dimensions"),
    ("complex adjacency", lambda: Graph(ADJACENCY * 1j), TypeError,
     r"adjacency of dtype complex128 must hold real numbers"),
    ("complex sparse adjacency", lambda: Graph(sp.csr_array(ADJACENCY * 1j)), TypeError,
     r"of dtype complex128 must \w+ real numbers"),
    ("complex sparse ones", lambda: Graph(sp.csr_array(ADJACENCY + 0j)), TypeError,
     r"of dtype complex128 must \w+ real numbers"),
    ("adjacency of objects", lambda: Graph(ADJACENCY.astype(object)), TypeError,
     r"adjacency of dtype object must hold real numbers"),
    ("adjacency of text", lambda: Graph(ADJACENCY.astype(str)), TypeError,
     r"adjacency of dtype <U\d+ must hold real numbers"),
    ("adjacency of no nodes", lambda: Graph(np.empty((0, 0))), ValueError,
     r"the graph has no nodes; at least 1 is needed"),
    ("networkx graph of no nodes", lambda: Graph.from_networkx(nx.Graph()), ValueError,
     r"the graph has no nodes; at least 1 is needed"),
    ("edge_index of no nodes", edges(np.empty((2, 0), int)), ValueError,
     r"the graph has no nodes; at least 1 is needed"),
    ("without_edges of no nodes", lambda: Graph.without_edges(0), ValueError,
     r"the graph has no nodes; at least 1 is needed"),
    ("too many nodes", edges(PAIRS, n_nodes=2**31), ValueError,
     r"n_nodes=2147483648 must be at most 2147483647, as positions are stored as int32"),
    ("position too large", edges([[0, 7], [7, 0]], n_nodes=5), ValueError,
     r"node 7 is out of range; with n_nodes=5 positions go from 0 to 4"),
    ("negative position", edges([[0, -1], [-1, 0]], n_nodes=5), ValueError,
     r"node -1 is out of range; with n_nodes=5 positions go from 0 to 4"),
    ("edge_index of floats", edges([[0.0, 1.0], [1.0, 0.0]]), TypeError,
     r"edge_index of dtype float64 must hold integers, .*for node ids use Graph\.from_edges"),
    ("edge_index of names", edges([["a"], ["b"]]), TypeError,
     r"edge_index of dtype <U1 must hold integers, .* use Graph\.from_edges"),
    ("edge_index of pairs", edges([[0, 1], [1, 2], [2, 3]]), ValueError,
     r"edge_index of shape \(3, 2\) must have shape \(2, n_edges\); transpose a list of pairs"),
    ("edge_index of one dimension", edges([0, 1]), ValueError,
     r"edge_index of shape \(2,\) must have shape \(2, n_edges\)"),
    ("no edge_index", lambda: Graph.from_pyg(object()), ValueError, r"object has no edge_index"),
]  # fmt: skip

IDS = [
    ("missing target column", table({"source": [0], "to": [1]}), ValueError,
     r"column 'target' is not in the edge table; it has \['source', 'to'\]"),
    ("missing weight column", table(TABLE, weight="w"), ValueError,
     r"column 'w' is not in the edge table; it has \['source', 'target'\]"),
    ("columns of two lengths", table({"source": [0], "target": [1, 2]}), ValueError,
     r"columns 'source' and 'target' have 1 and 2 ids; each row needs both"),
    ("id None in a table", table({"source": ["a", None], "target": ["b", "a"]}), ValueError,
     r"node id None at position 1 is missing; drop or name"),
    ("id NaN in a table", table({"source": [0.0, np.nan], "target": [1.0, 2.0]}), ValueError,
     r"node id nan at position 1 is missing; drop or name"),
    ("id NA in a table", table({"source": pd.array(["a", None], "string"), "target": ["b", "a"]}),
     ValueError, r"node id .* at position 1 is missing; drop or name"),
    ("id of a table not in nodes", table(TABLE, nodes=["a", "b"]), ValueError,
     r"node id 'c' in the edge table is not in nodes"),
    ("repeated id in nodes", table(TABLE, nodes=["a", "b", "c", "b"]), ValueError,
     r"node id 'b' occurs more than once; ids must be unique"),
    ("repeated node id", named("a", "b", "c", "b", "d"), ValueError,
     r"node id 'b' occurs more than once; ids must be unique"),
    ("repeated id of several types", named("a", 1, "c", 1, "d"), ValueError,
     r"node id 1 occurs more than once; ids must be unique"),
    ("node id None", named("a", None, "c", "d", "e"), ValueError,
     r"node id None at position 1 is missing; drop or name"),
    ("node id NaN", named(0, 1, np.nan, 3, 4), ValueError,
     r"node id nan at position 2 is missing; drop or name"),
    ("too few node ids", named("a", "b"), ValueError,
     r"2 node_ids for 5 nodes; give one id per node"),
    ("unknown id", lambda: NAMED.positions(["a", "z"]), ValueError,
     r"node id 'z' in ids is not in the graph"),
    ("positions without ids", lambda: GRAPH.positions([0]), ValueError,
     r"this graph has no node_ids; its nodes are 0 \.\. n_nodes - 1"),
]  # fmt: skip

PARAMETERS = [
    ("n_components too large", gpca(n_components=4), ValueError,
     r"n_components=4 must be in \[1, 3\]; X with 5 rows and 3 features has at most 3"),
    ("n_components 0", gpca(n_components=0), ValueError, r"n_components=0 must be in \[1, 3\]"),
    ("n_components negative", gpca(n_components=-1), ValueError, r"n_components=-1 must be in \[1"),
    ("n_components a float", gpca(n_components=2.0), TypeError,
     r"n_components=2\.0 must be an integer"),
    ("keep_training_nodes", gpca(keep_training_nodes="yes"), ValueError,
     r"keep_training_nodes='yes' must be True, False, or None"),
    ("keep_training_nodes of a classifier", classifier(keep_training_nodes=1), ValueError,
     r"keep_training_nodes=1 must be True, False, or None"),
    ("beta negative", gpca(beta=-0.1), ValueError,
     r"beta=-0\.1 must be in \[0, 1\]; use 0 to ignore labels"),
    ("beta above 1", gpca(beta=1.5), ValueError, r"beta=1\.5 must be in \[0, 1\]; use 0"),
    ("beta NaN", gpca(beta=np.nan), ValueError, r"beta=nan must be in \[0, 1\]; use 0"),
    ("alpha negative", gpca(alpha=-1), ValueError,
     r"alpha=-1 must be in \[0, 1e\+06\]; use 0 to ignore the graph"),
    ("alpha infinite", gpca(alpha=np.inf), ValueError,
     r"alpha=inf must be in \[0, 1e\+06\]; use 0"),
    ("alpha NaN", gpca(alpha=np.nan), ValueError,
     r"alpha=nan must be in \[0, 1e\+06\]; use 0"),
    ("alpha of text", gpca(alpha="10"), TypeError, r"alpha='10' must be a number; use 0"),
    ("alpha a boolean", gpca(alpha=True), TypeError, r"alpha=True must be a number; use 0"),
    ("unknown solver", gpca(solver="lu"), ValueError,
     r"solver='lu' must be one of 'auto', 'direct', 'chebyshev', 'cg', 'fixed-point'"),
    ("unknown normalization", gpca(normalization="l2"), ValueError,
     r"normalization='l2' must be one of 'sym', 'rw'"),
    ("unknown ghost", gpca(ghost="none"), ValueError,
     r"ghost='none' must be one of 'balanced', 'paper'"),
    ("unknown eigen_solver", gpca(eigen_solver="svd"), ValueError,
     r"eigen_solver='svd' must be one of 'auto', 'formed', 'lanczos'"),
    ("unknown precision", gpca(precision="double"), ValueError,
     r"precision='double' must be one of 'full', 'half'"),
    ("half precision by cg", gpca(precision="half", solver="cg"), ValueError,
     r"precision='half' requires solver='chebyshev' or 'fixed-point' and eigen_solver='formed'"),
    ("half precision by lanczos", gpca(precision="half", eigen_solver="lanczos"), ValueError,
     r"eigen_solver='formed', not 'auto' and 'lanczos'"),
    ("half precision, not self-adjoint",
     lambda: GPCA(precision="half", normalization="rw", ghost="paper", beta=0.2).fit(
         X, [0, 0, 0, 1, 1], graph=GRAPH), ValueError,
     r"precision='half' with normalization='rw' requires ghost='balanced'"),
    ("lanczos for all components", gpca(eigen_solver="lanczos", n_components=3), ValueError,
     r"eigen_solver='lanczos' computes fewer than all 3 components, not 3; use .*='formed'"),
    ("n_iter without fixed-point", gpca(n_iter=5), ValueError,
     r"n_iter=5 requires solver='fixed-point'; 'auto' iterates until tol is reached"),
    ("n_iter negative", gpca(n_iter=-1, solver="fixed-point"), ValueError,
     r"n_iter=-1 must be at least 0; the paper uses n_iter=5"),
    ("n_iter a float", gpca(n_iter=2.5, solver="fixed-point"), TypeError,
     r"n_iter=2\.5 must be an integer"),
    ("tol 0", gpca(tol=0), ValueError, r"tol=0 must be in \[1e-15, 0\.5\]; use tol=None"),
    ("max_iter 0", gpca(max_iter=0), ValueError,
     r"max_iter=0 must be at least 1; the default is 1000"),
    ("beta without y", gpca(beta=0.5), ValueError,
     r"beta=0\.5 adds ghost edges .* but y is None; pass y with -1 for .* or use beta=0"),
]  # fmt: skip

FEATURES = [
    ("NaN in X", fit(with_entry(X, 2, 1, np.nan)), ValueError,
     r"X contains NaN at row 2, column 1 \(1 NaN or infinite .*\); fill them in .* or drop"),
    ("infinity in X", fit(with_entry(X, 4, 0, -np.inf, np.float32)), ValueError,
     r"X contains infinity \(inf\) at row 4, column 0 \(1 NaN or infinite values in all\); fill"),
    ("both infinities in X", fit(with_entry(with_entry(X, 1, 1, np.inf), 2, 2, -np.inf)),
     ValueError, r"X contains infinity \(inf\) at row 1, column 1 \(2 NaN or infinite values"),
    ("NaN in sparse X", fit(sp.csr_array(with_entry(np.eye(4), 2, 1, np.nan))), ValueError,
     r"X contains NaN at row 2, column 1 \(1 NaN or infinite values in all\); fill them in"),
    ("infinity in sparse X after empty rows",
     fit(sp.csc_array(with_entry(np.zeros((6, 4)), 5, 3, np.inf))), ValueError,
     r"X contains infinity \(inf\) at row 5, column 3 \(1 NaN or infinite values in all\)"),
    ("masked values in X", fit(np.ma.masked_greater(X, 0.5)), ValueError,
     r"X has masked values; fill them in \(.*X\.filled.*\) or drop these nodes"),
    ("NaN in transform", lambda: fitted().transform(with_entry(X, 2, 1, np.nan)), ValueError,
     r"X contains NaN at row 2, column 1"),
    ("rows and nodes differ", fit(X[:4], graph=GRAPH), ValueError,
     r"X has 4 rows but the graph has 5 nodes; they must match, or nodes= must give the position"),
    ("other number of features", lambda: fitted().transform(X[:, :2], graph=GRAPH), ValueError,
     r"X has 2 features, but GPCA is expecting 3 features"),
    ("transform without the graph", lambda: fitted().transform(X), ValueError,
     r"this GPCA was fitted with a graph; pass graph= here, too .*without_edges\(5\)"),
    ("transform of some nodes, the others not kept", lambda: fitted().transform(
        X[:2], graph=GRAPH, nodes=[0, 1]), ValueError,
     r"X has 2 of the 5 nodes .* fit kept no training rows; pass all rows .* keep_training_nodes="),
    ("a text column", fit(pd.DataFrame({"a": [1, 2], "kind": ["x", "3"]})), ValueError,
     r"column 'kind' of X holds 'x', not numbers; drop it, or encode it"),
    ("a text column of an Arrow table", fit(pa.table({"a": [1, 2], "kind": ["x", "y"]})),
     ValueError, r"column 'kind' of X holds 'x', not numbers"),
    ("a text column of a polars table", fit(pl.DataFrame({"a": [1, 2], "kind": ["x", "y"]})),
     ValueError, r"column 'kind' of X holds 'x', not numbers"),
    ("transform before fit", lambda: GPCA().transform(X), NotFittedError, r"Call 'fit'"),
    ("inverse_transform before fit", lambda: GPCA().inverse_transform(X), NotFittedError,
     r"Call 'fit'"),
    ("width of Z", lambda: fitted().inverse_transform(X), ValueError,
     r"Z has 3 columns, but the embedding has 2"),
    ("X of text", fit(np.array([["a", "b"]] * 3, object)), ValueError, r"convert .* float: 'a'"),
    ("complex X", fit(X * 1j), ValueError, r"^Complex data not supported$"),
    ("X of dates", fit(DATES[:, None]), TypeError, r"X has dates; convert them to numbers"),
    ("a column of dates", fit(pd.DataFrame({"a": range(5), "when": DATES})), TypeError,
     r"column 'when' of X has dates; convert them to numbers or drop the column"),
    ("a column of durations",
     fit(pa.table({"a": range(5), "age": DATES - DATES[0]})), TypeError,
     r"column 'age' of X has durations; convert"),
    ("X without rows", fit(np.empty((0, 3))), ValueError, r"0 sample\(s\) .* minimum of 2"),
    ("X without features", fit(np.empty((3, 0))), ValueError, r"0 feature\(s\) .* minimum of 1"),
    ("X of one dimension", fit(X[0]), ValueError,
     r"^Expected 2D array, got 1D array instead\. Reshape your data .* single sample\.$"),
    ("a table as graph", fit(X, graph=pd.DataFrame(TABLE)), TypeError,
     r"graph is a table; build Graph\.from_edges\(table\) first, and give X its node_ids"),
    ("graph not square", fit(X, graph=np.ones((5, 4))), ValueError,
     r"adjacency of shape \(5, 4\) must be square"),
    ("graph of other nodes", fit(X, graph=np.array([[0, 9], [9, 0]])), ValueError,
     r"node 9 is out of range; with n_nodes=5 positions go from 0 to 4"),
]  # fmt: skip

LABELS_AND_NODES = [
    ("too few labels", fit(X, [0, 1], graph=GRAPH), ValueError,
     r"y has 2 labels for 5 rows of X; give one per row, -1 where unknown"),
    ("no labelled node", fit(X, [-1] * 5, graph=GRAPH), ValueError,
     r"y has no labelled node: all are -1; at least one is needed"),
    ("continuous y of a classifier", lambda: GPCAClassifier().fit(
        X, [0.5, 1.5, 2.2, 3.1, 0.1], graph=GRAPH), ValueError,
     r"Unknown label type: continuous; classes must be .*; use GPCARegressor to predict numbers"),
    ("targets of dates", regressor(DATES), TypeError, r"y has dates; convert them to real numbers"),
    ("a target of durations", regressor(pd.DataFrame({"a": range(5), "b": DATES - DATES[0]})),
     TypeError, r"y has durations; convert them to real numbers"),
    ("masked targets of dates", regressor(np.ma.array(DATES, mask=[True] + 4 * [False])), TypeError,
     r"y has dates; convert"),
    ("complex targets", regressor(np.arange(5) * 1j), TypeError, r"y has complex numbers; convert"),
    ("infinity in continuous y", fit(X, [0.5, 1, np.inf, 0, 1], graph=GRAPH), ValueError,
     r"y contains infinity at row 2, column 0; give finite numbers"),
    ("infinity in y", fit(X, [0, 1, np.inf, 0, 1], graph=GRAPH), ValueError,
     r"y contains infinity"),
    ("y of three dimensions", fit(X, np.zeros((5, 2, 2)), graph=GRAPH), ValueError,
     r"Found array with dim 3, while dim <= 2 is required"),
    ("node too large", fit(X[:2], graph=GRAPH, nodes=[0, 9]), ValueError,
     r"node 9 is out of range for a graph of 5 nodes"),
    ("node negative", fit(X[:2], graph=GRAPH, nodes=[0, -1]), ValueError,
     r"node -1 is out of range for a graph of 5 nodes"),
    ("repeated node", fit(X[:3], graph=GRAPH, nodes=[0, 1, 1]), ValueError,
     r"nodes has node 1 more than once; give each node once"),
    ("too few nodes", fit(X[:3], graph=GRAPH, nodes=[0, 1]), ValueError,
     r"2 nodes for 3 rows of X; give one position per row"),
    ("nodes of floats", fit(X[:2], graph=GRAPH, nodes=[0.0, 1.0]), TypeError,
     r"nodes of dtype float64 must be integer positions in the graph"),
    ("nodes as a mask", fit(X[:2], graph=GRAPH, nodes=[True, False]), TypeError,
     r"nodes of dtype bool must be integer positions in the graph"),
    ("nodes without graph", fit(X[:2], nodes=[0, 1]), ValueError,
     r"nodes= gives positions in a graph; pass graph=, too"),
]  # fmt: skip

CLASSIFIER = [
    ("one class", classifier([0, 0, -1, -1, 0]), ValueError, r"only the class 0; at least 2"),
    ("classifier without labels", classifier([-1] * 5), ValueError, r"y has no labelled node"),
    ("classifier without y", classifier(None), ValueError, r"requires y to be passed"),
    ("weights beyond float32", lambda: GPCA().fit(
        X.astype(np.float32), graph=ADJACENCY * 1e39), ValueError,
     r"the weights of a node sum to 2.0e\+39, which overflows float32; scale them down"),
    ("text and numbers in y", classifier(np.array(["a", 1, "b", "a", 1], object)), TypeError,
     r"y mixes text and numbers; give all labels as one or the other"),
    ("a negative alpha in a list", classifier(alpha=[1, -2]), ValueError,
     r"alpha=-2 must be in \[0, 1e\+06\]; use 0 to ignore the graph"),
    ("an empty list of alphas", classifier(alpha=[]), ValueError,
     r"alpha=\[\] must be a number or a list of numbers"),
    ("no members", classifier(n_members=0), ValueError, r"n_members=0 must be"),
    ("switch of boosting", classifier(boosting="maybe"), ValueError,
     r"boosting='maybe' must be True, False or 'auto'"),
    ("class weights by name", classifier(class_weight="equal"), ValueError,
     r"class_weight='equal' must be None, 'balanced' or a dict"),
    ("negative class weight", classifier(class_weight={0: 1, 1: -2}), ValueError,
     r"class_weight of 1=-2 must be finite and at least 0; use 0 to ignore the class"),
    ("missing class weight", classifier(class_weight={0: 1, 1: np.nan}), ValueError,
     r"class_weight of 1=nan must be finite and at least 0"),
    ("class weights of zero", classifier(class_weight={0: 0, 1: 0}), ValueError,
     r"the weights of all training labels are zero; give some a positive sample_weight and"),
    ("sample weights of text", lambda: GPCAClassifier().fit(
        X, [0, 1, 0, 1, 0], list("abcde")), TypeError,
     r"sample_weight of dtype <U1 must hold numbers"),
    ("weights with text", lambda: GPCAClassifier().fit(
        X, [0, 1, 0, 1, 0], np.array([1, 2, 3, 4, "a"], object)), ValueError,
     r"could not convert string to float: 'a'"),
    ("score with zero weights", lambda: GPCAClassifier(alpha=1.0).fit(X, [0, 1, 0, 1, 0]).score(
        X, [0, -1, -1, -1, -1], [0, 1, 1, 1, 1]), ValueError,
     r"no row of y is known and has a positive weight; give at least one to compute a score"),
    ("ragged labels", lambda: GPCAClassifier().fit(X, [[0, 1], [1], [0], [1], [0]]), ValueError,
     r"y has rows of different lengths; give all rows the same length"),
    ("ragged ghost labels", fit(X, [[0, 1], [1], [0], [1], [0]]), ValueError,
     r"y has rows of different lengths"),
    ("ragged adjacency", lambda: Graph([[1, 2], [3]]), ValueError,
     r"adjacency has rows of different lengths"),
    ("ragged graph", lambda: GPCA().fit(X, graph=[[1, 2], [3]]), ValueError,
     r"graph has rows of different lengths"),
    ("ragged nodes", lambda: GPCA().fit(X, graph=GRAPH, nodes=[[1, 2], [3]]), ValueError,
     r"nodes has rows of different lengths"),
    ("inverse transform before fit", lambda: GPCA().inverse_transform(X), NotFittedError, r"Call"),
    ("unknown scaling", classifier(feature_scaling="z"), ValueError,
     r"feature_scaling='z' must be one of 'auto', 'l2', 'none', 'tfidf', 'standard'"),
    ("tf-idf of negative values", classifier(feature_scaling="tfidf"), ValueError,
     r"feature_scaling='tfidf' needs X without negative values, .*; use 'l2', 'standard' or"),
    ("C zero", classifier(C=0), ValueError, r"C=0 must be finite and at least 1e-12; use C='auto'"),
    ("C of text", classifier(C="best"), TypeError, r"C='best' must be a number; use C='auto'"),
    ("cv one", classifier(cv=1), ValueError, r"cv=1 must be at least 2; 5 is the default"),
    ("normalize_embedding of text", classifier(normalize_embedding="yes"), ValueError,
     r"normalize_embedding='yes' must be True, False or 'auto'"),
    ("beta of the classifier", classifier(beta=2.0), ValueError, r"beta=2\.0 must be in \[0, 1\]"),
    ("unlabelled validation", classifier(validation=[0, 2]), ValueError,
     r"validation has 2 rows, 1 of them unlabelled; give at least one"),
    ("empty validation", classifier(validation=np.zeros(5, bool)), ValueError,
     r"validation has 0 rows"),
    ("class in validation only", classifier([0, 1, -1, 0, 2], validation=[4]), ValueError,
     r"class 2 is in validation only; training needs at least one node of every class"),
    ("validation out of range", classifier(validation=[9]), ValueError,
     r"validation row 9 is out of range for 5 rows of X"),
    ("validation mask too short", classifier(validation=[True]), ValueError,
     r"validation mask has 1 values for 5 rows of X"),
    ("validation of floats", classifier(validation=[0.0]), TypeError,
     r"validation of dtype float64 must be a mask or row positions"),
    ("predict without the graph", lambda: GPCAClassifier().fit(
        X, [0, 1, 0, 1, 0], graph=GRAPH).predict(X), ValueError,
     r"this GPCAClassifier was fitted with a graph; pass graph= here, too"),
    ("predict before fit", lambda: GPCAClassifier().predict(X), NotFittedError, r"Call 'fit'"),
    ("predict on other rows", lambda: GPCAClassifier().fit(X, [0, 1, 0, 1, 0]).predict(
        X, graph=Graph.without_edges(4)), ValueError, r"X has 5 rows but the graph has 4 nodes"),
]  # fmt: skip

INVALID_CALLS = [*CLASSIFIER, *WEIGHTS, *STRUCTURE, *IDS, *PARAMETERS, *FEATURES, *LABELS_AND_NODES]


@pytest.mark.parametrize(
    ("call", "kind", "pattern"),
    [row[1:] for row in INVALID_CALLS],
    ids=[row[0] for row in INVALID_CALLS],
)
def test_invalid_call_raises_with_value_limit_and_advice(call, kind, pattern):
    with pytest.raises(kind, match=pattern) as raised:
        call()
    assert issubclass(raised.type, UserError) or raised.type is NotFittedError
    ours = Path(gpcanet.__file__).parent in Path(raised.traceback[-1].path).parents
    if ours:  # messages of scikit-learn may have several lines
        assert "\n" not in str(raised.value)


def test_case_ids_are_unique():
    names = [row[0] for row in INVALID_CALLS]
    assert sorted(set(names)) == sorted(names)


OTHER_Y = ["a", "b", "a", "b", "a"]
WRONG_WEIGHTS = -np.ones(5)


@pytest.mark.parametrize(
    ("model", "fit_again", "predict"),
    [
        (GPCA(2).fit(X, graph=GRAPH), lambda m: m.fit(X[:, :2], graph=np.ones(3)),
         lambda m: m.transform(X[:, :2])),
        (GPCA(2).fit(X), lambda m: m.set_params(n_components=9).fit(X[:, :2]),
         lambda m: m.inverse_transform(np.eye(2))),
        (GPCAPath(2).fit(X, graph=GRAPH), lambda m: m.set_params(n_components=9).fit(X),
         lambda m: m.embedding(10.0)),
        (GraphImputer().fit(X, graph=GRAPH), lambda m: m.fit(X * [1, 1, np.nan]),
         lambda m: m.transform(X)),
        (GPCAClassifier(alpha=1.0).fit(X, [0, 1, 0, 1, 0]),
         lambda m: m.fit(X, OTHER_Y, WRONG_WEIGHTS), lambda m: m.predict(X)),
        (GPCAClassifier(alpha=1.0).fit(X, [0, 1, 0, 1, 0]),
         lambda m: m.fit(X, OTHER_Y, validation=[9]), lambda m: m.score(X, OTHER_Y)),
        (GPCAClassifier(alpha=1.0).fit(X, [0, 1, 0, 1, 0]),
         lambda m: m.fit(X, np.eye(5), WRONG_WEIGHTS), lambda m: m.predict(X)),
        (GPCARegressor(alpha=1.0).fit(X, X[:, 0]), lambda m: m.fit(X, X, WRONG_WEIGHTS),
         lambda m: m.predict(X)),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)  # fmt: skip
def test_a_model_is_not_fitted_after_a_fit_that_fails(model, fit_again, predict):
    with pytest.raises(UserError):
        fit_again(model)
    with pytest.raises(NotFittedError):
        predict(model)


@pytest.mark.parametrize("model", [GPCAClassifier(alpha=1.0), GPCAPath(2), GPCA(2)])
def test_a_model_whose_first_fit_failed_is_not_fitted(model):
    with pytest.raises(UserError):
        model.fit(X, OTHER_Y if isinstance(model, GPCAClassifier) else None, graph=np.ones(3))
    calls = {
        GPCAClassifier: ("predict_proba", (X,)),
        GPCAPath: ("components", (10.0,)),
        GPCA: ("inverse_transform", (np.eye(2),)),
    }
    name, arguments = calls[type(model)]
    with pytest.raises(NotFittedError):
        getattr(model, name)(*arguments)


def test_missing_values_of_nullable_columns_are_missing_features():
    frame = pd.DataFrame({"a": pd.array([True, None, False], "boolean"), "b": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="X contains NaN at row 1, column 0"):
        GPCA(1).fit(frame)
    filled = GraphImputer().fit_transform(frame)
    np.testing.assert_array_equal(filled[:, 0], [1, 0.5, 0])


def test_parameters_of_subclasses_may_end_in_an_underscore():
    class Scaled(GPCA):
        def __init__(self, n_components=None, *, lambda_=1.0):
            super().__init__(n_components)
            self.lambda_ = lambda_

    model = Scaled(2).fit(X)
    assert clone(model).lambda_ == model.lambda_ == 1.0


def test_check_is_fitted_fails_after_a_fit_that_fails():
    models = GPCA(99), GPCAClassifier(99), GPCARegressor(99), GPCAPath(99), GraphImputer(tol=-1)
    for model in models:
        with pytest.raises(UserError):
            model.fit(X, np.arange(len(X)) % 2)
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
