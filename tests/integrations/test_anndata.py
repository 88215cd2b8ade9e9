"""GPCA of AnnData objects, next to dense formulas and scanpy."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import (
    align_signs,
    dense_components,
    dense_P,
    dense_solve,
    random_features,
    random_graph,
    random_labels,
)

from gpcanet.errors import DataWarning, InputError, InputTypeError
from gpcanet.graph import Graph, GraphWarning
from gpcanet.integrations.anndata import gpca

anndata = pytest.importorskip("anndata", reason="anndata is not installed")

N, GENES = 40, 6


def make(graph, X=None, key="connectivities", **columns):
    X = random_features(N, GENES) if X is None else X
    obs = pd.DataFrame(columns, index=[f"spot{i}" for i in range(N)])
    adata = anndata.AnnData(X, obs=obs)
    adata.obsp[key] = sp.csr_matrix(graph.adjacency)
    return adata


def dense_embedding(X, P, alpha, k):
    """Eigenvalues, components and embedding by dense formulas."""
    X = X - X.mean(axis=0)
    values, W = dense_components(X, P, alpha, k, np.ones(len(X)))
    return values, W, dense_solve(P, alpha, X) @ W


@pytest.fixture
def adata(graph):
    return make(graph)


@examples(20)
@given(
    seed=st.integers(0, 10**6),
    alpha=st.floats(0, 50),
    weighted=st.booleans(),
    n_samples=st.integers(1, 4),
    in_layer=st.booleans(),
    is_sparse=st.booleans(),
)
def test_result_equals_dense_formula_of_each_sample(
    seed, alpha, weighted, n_samples, in_layer, is_sparse
):
    rng = np.random.default_rng(seed)
    graph = random_graph(N, weighted=weighted, seed=seed)
    X = random_features(N, GENES, seed=seed)
    samples = rng.integers(0, n_samples, N)
    mask = rng.random(GENES) < 0.7
    mask[:2] = True
    adata = make(graph, np.zeros_like(X) if in_layer else X, sample=pd.Categorical(samples))
    stored = sp.csr_matrix(X) if is_sparse else X
    if in_layer:
        adata.layers["log"] = stored
    else:
        adata.X = stored
    adata.var["highly_variable"] = mask
    A = graph.adjacency.toarray() * (samples[:, None] == samples[None, :])
    n_dropped = graph.n_edges - np.count_nonzero(A) // 2
    if n_samples > 1 and np.count_nonzero(A) == 0:
        return
    layer = "log" if in_layer else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert gpca(adata, 2, alpha=alpha, layer=layer, batch_key="sample") is None
    values, W, Z = dense_embedding(X[:, mask], dense_P(Graph(A)), alpha, 2)
    # Solves and eigenvectors have a relative error of 1e-6.
    found, results = adata.obsm["X_gpca"], adata.uns["X_gpca"]
    np.testing.assert_allclose(align_signs(found, Z), Z, atol=2e-4 * np.abs(Z).max())
    np.testing.assert_allclose(results["variance"], values / (N - 1), rtol=1e-5)
    loadings = adata.varm["X_gpca"]
    assert np.all(loadings[~mask] == 0)
    np.testing.assert_allclose(align_signs(loadings[mask], W), W, atol=2e-4)
    assert results["dropped_edges"] == n_dropped
    assert results["params"]["obsp"] == "connectivities"


def test_results_survive_a_file(adata, tmp_path):
    gpca(adata, 3, alpha=2, beta=0.0, memory_limit="1GiB")
    adata.write_h5ad(tmp_path / "spots.h5ad")
    read = anndata.read_h5ad(tmp_path / "spots.h5ad")
    np.testing.assert_array_equal(read.obsm["X_gpca"], adata.obsm["X_gpca"])
    assert read.uns["X_gpca"]["params"]["alpha"] == 2
    assert read.uns["X_gpca"]["variance_ratio"].shape == (3,)


def test_copy_leaves_the_object_as_it_was(adata):
    copied = gpca(adata, 2, copy=True, key_added="graph")
    assert list(adata.obsm) == list(adata.varm) == list(adata.uns) == []
    assert copied.obsm["graph"].shape == (N, 2)
    assert list(copied.varm) == list(copied.uns) == ["graph"]


def test_default_number_of_components():
    X = np.random.default_rng(0).normal(size=(N, 45))
    adata = make(random_graph(N), X)
    gpca(adata)
    assert adata.obsm["X_gpca"].shape == (N, N)
    wide = anndata.AnnData(np.tile(X, (2, 2)))
    wide.obsp["connectivities"] = sp.csr_matrix(random_graph(2 * N).adjacency)
    gpca(wide)
    assert wide.obsm["X_gpca"].shape == (2 * N, 50)


def test_embedding_of_another_embedding(adata):
    adata.obsm["X_scaled"] = pd.DataFrame(adata.X * 2, adata.obs_names)
    gpca(adata, 3, use_rep="X_scaled", key_added="scaled")
    gpca(adata, 3)
    np.testing.assert_allclose(adata.obsm["scaled"], 2 * adata.obsm["X_gpca"], rtol=1e-6)
    assert "scaled" not in adata.varm
    np.testing.assert_allclose(adata.uns["scaled"]["components"], adata.varm["X_gpca"], atol=1e-6)


def test_labels_act_with_beta(graph):
    y = random_labels(N)
    names = np.array(["a", "b", "c", None], object)[y]
    adata = make(graph, domain=pd.Categorical(names))
    gpca(adata, 2, alpha=5, beta=0.4, label_key="domain")
    *_, Z = dense_embedding(adata.X, dense_P(graph, labels=y, beta=0.4), 5, 2)
    found = align_signs(adata.obsm["X_gpca"], Z)
    np.testing.assert_allclose(found, Z, atol=1e-4 * np.abs(Z).max())
    with pytest.raises(InputError, match="label_key='domain' is used for beta > 0"):
        gpca(adata, 2, label_key="domain")


@pytest.mark.parametrize("key", ["spatial_connectivities", "spatial_neighbors"])
def test_graph_is_named_by_obsp_or_by_uns(graph, key):
    adata = make(graph, key="spatial_connectivities")
    adata.uns["spatial_neighbors"] = {"connectivities_key": "spatial_connectivities"}
    gpca(adata, 2, neighbors_key=key)
    assert adata.uns["X_gpca"]["params"]["obsp"] == "spatial_connectivities"
    expected = make(graph)
    gpca(expected, 2)
    np.testing.assert_array_equal(adata.obsm["X_gpca"], expected.obsm["X_gpca"])


def test_sparse_counts_stay_sparse(graph, monkeypatch):
    def refuse(*_):
        raise AssertionError("the matrix was made dense")

    adata = make(graph, sp.csr_matrix(np.random.default_rng(0).poisson(0.1, (N, 3000))))
    for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        monkeypatch.setattr(kind, "toarray", refuse)
    gpca(adata, 3)
    assert adata.obsm["X_gpca"].shape == (N, 3)


def test_view_and_backed_objects(adata, tmp_path):
    gpca(adata, 2)
    adata.write_h5ad(tmp_path / "spots.h5ad")
    backed = anndata.read_h5ad(tmp_path / "spots.h5ad", backed="r")
    gpca(backed, 2, key_added="again")
    np.testing.assert_array_equal(backed.obsm["again"], adata.obsm["X_gpca"])
    backed.file.close()
    part = adata[:20]
    with pytest.warns(anndata.ImplicitModificationWarning):
        gpca(part, 2, key_added="part")
    assert part.obsm["part"].shape == (20, 2)
    assert "part" not in adata.obsm


# -- bad input ----------------------------------------------------------------------------


def with_obs(**columns):
    return lambda adata: [adata.obs.__setitem__(name, v) for name, v in columns.items()]


BAD = {
    "no graph": (
        lambda adata: adata.obsp.__delitem__("connectivities"), {},
        r"adata has no obsp\['connectivities'\]; its obsp is empty"),
    "another graph": (
        lambda adata: [adata.obsp.__setitem__("distances", adata.obsp["connectivities"]),
                       adata.obsp.__setitem__("spatial_connectivities", adata.obsp["distances"]),
                       adata.obsp.__delitem__("connectivities")], {},
        r"adata has no obsp\['connectivities'\]; name one of 'spatial_connectivities'$"),
    "unknown key": (
        None, {"neighbors_key": "space"},
        r"adata has no obsp\['space'\]; name one of 'connectivities'"),
    "distances": (
        lambda adata: adata.obsp.__setitem__("distances", adata.obsp["connectivities"]),
        {"neighbors_key": "distances"}, "has distances, but a large weight must mean a close pair"),
    "no layer": (None, {"layer": "log"}, r"adata has no layers\['log'\]; its layers is empty"),
    "no representation": (None, {"use_rep": "X_pca"}, r"adata has no obsm\['X_pca'\]"),
    "both": (None, {"use_rep": "X_pca", "layer": "log"}, "are both given; give one of them"),
    "no column": (None, {"batch_key": "sample"}, r"adata has no obs\['sample'\]; its obs is empty"),
    "missing sample": (
        with_obs(sample=[None, *"a" * (N - 1)]), {"batch_key": "sample"},
        r"obs\['sample'\] of 'spot0' is missing \(1 in all\)"),
    "every edge between samples": (
        with_obs(sample=[str(i) for i in range(N)]), {"batch_key": "sample"},
        "dropped, and no edge is left; compute neighbours within each sample"),
    "no such mask": (None, {"mask_var": "hvg"}, r"adata has no var\['hvg'\]; it has no columns"),
    "mask of another length": (None, {"mask_var": [True]}, r"one boolean for each of 6 genes"),
    "mask of numbers": (None, {"mask_var": [1] * GENES}, "one boolean for each of 6 genes"),
    "mask with missing values": (
        None, {"mask_var": pd.array([True, None, *[False] * (GENES - 2)], "boolean")},
        "^1 of 6 values of mask_var are missing; set them$"),
    "mask of var with missing values": (
        lambda adata: adata.var.insert(0, "hvg", pd.array([None, *[True] * 5], "boolean")),
        {"mask_var": "hvg"}, "^1 of 6 values of mask_var are missing"),
    "empty mask": (None, {"mask_var": [False] * GENES}, "mask_var selects no gene"),
    "mask of a representation": (
        lambda adata: adata.obsm.__setitem__("X_pca", adata.X),
        {"use_rep": "X_pca", "mask_var": [True] * GENES}, "mask_var selects columns of X"),
    "too many components": (None, {"n_comps": 7}, "^n_comps=7 must be"),
    "negative alpha": (None, {"alpha": -1}, "^alpha=-1 must be"),
    "no labels": (
        None, {"beta": 0.2}, "^beta=0.2 needs labels; pass label_key, a column of obs$"),
    "missing value": (
        lambda adata: adata.X.__setitem__((3, 2), np.nan), {}, "NaN"),
    "no features": (lambda adata: setattr(adata, "X", None), {}, "adata has no features; set X"),
    "negative weight": (
        lambda adata: adata.obsp.__setitem__("connectivities", -adata.obsp["connectivities"]), {},
        "must be .*(non-negative|at least 0)"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence_and_changes_nothing(adata, case):
    change, options, message = BAD[case]
    if change is not None:
        change(adata)
    with pytest.raises(InputError, match=message) as error:
        gpca(adata, **options)
    assert "\n" not in str(error.value)
    assert "X_gpca" not in adata.obsm
    assert "X_gpca" not in adata.uns


def test_other_objects_are_refused(graph):
    with pytest.raises(InputTypeError, match="adata is a ndarray; give an AnnData object"):
        gpca(np.eye(3))


def test_warnings_about_the_graph(graph):
    adata = make(graph, sample=list("ab") * (N // 2))
    with pytest.warns(DataWarning, match="more than half of all"):
        gpca(adata, 2, batch_key="sample")
    adata.obsp["connectivities"] = sp.triu(adata.obsp["connectivities"]).tocsr()
    with pytest.warns(GraphWarning):
        gpca(adata, 2)


# -- scanpy -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scanpy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # imports of other libraries
        return pytest.importorskip("scanpy", reason="scanpy is not installed")


@pytest.fixture
def tissue():
    """Spots on a grid in four quadrants, with noisy counts."""
    side = 24
    row, column = np.divmod(np.arange(side**2), side)
    domain = 2 * (row >= side // 2) + (column >= side // 2)
    rng = np.random.default_rng(0)
    rates = rng.gamma(2.0, 0.4, (4, 80))
    obs = pd.DataFrame({"domain": domain}, index=[f"s{i}" for i in range(side**2)])
    adata = anndata.AnnData(sp.csr_matrix(rng.poisson(rates[domain]).astype(np.float32)), obs=obs)
    distance = abs(row[:, None] - row) + abs(column[:, None] - column)
    adata.obsp["spatial_connectivities"] = sp.csr_matrix((distance == 1).astype(float))
    return adata


@pytest.mark.filterwarnings("ignore")
def test_alpha_0_is_the_pca_of_scanpy(scanpy, tissue):
    tissue.var["highly_variable"] = np.arange(80) % 3 > 0
    scanpy.pp.log1p(tissue)
    scanpy.pp.pca(tissue, n_comps=5)
    gpca(tissue, 5, alpha=0, neighbors_key="spatial_connectivities")
    Z = tissue.obsm["X_pca"]
    # float32
    np.testing.assert_allclose(align_signs(tissue.obsm["X_gpca"], Z), Z, atol=1e-3)
    loadings = tissue.varm["PCs"]
    np.testing.assert_allclose(align_signs(tissue.varm["X_gpca"], loadings), loadings, atol=1e-3)
    for name in ("variance", "variance_ratio"):
        np.testing.assert_allclose(tissue.uns["X_gpca"][name], tissue.uns["pca"][name], rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_scanpy_goes_on_from_the_embedding(scanpy, tissue):
    pytest.importorskip("igraph", reason="igraph is not installed")
    import matplotlib as mpl
    from sklearn.metrics import adjusted_rand_score

    mpl.use("Agg")
    scanpy.pp.normalize_total(tissue)
    scanpy.pp.log1p(tissue)
    gpca(tissue, 10, neighbors_key="spatial_connectivities")
    scanpy.pp.neighbors(tissue, use_rep="X_gpca", method="gauss")
    scanpy.tl.leiden(tissue, flavor="igraph", n_iterations=2, resolution=0.3)
    assert adjusted_rand_score(tissue.obs["domain"], tissue.obs["leiden"]) > 0.8
    axes = scanpy.pl.embedding(tissue, "X_gpca", color="leiden", show=False)
    assert axes.get_xlabel().startswith("X_gpca")
    gpca(tissue, 10, key_added="by_expression")
    assert tissue.uns["by_expression"]["params"]["obsp"] == "connectivities"


def test_components_of_an_earlier_embedding_are_removed(adata):
    adata.obsm["rep"] = np.asarray(adata.X)[:, :3]
    gpca(adata, 2)
    gpca(adata, 2, use_rep="rep")
    assert "X_gpca" not in adata.varm
    assert adata.uns["X_gpca"]["components"].shape == (3, 2)


def test_a_mask_is_matched_with_genes_by_index(adata):
    mask = pd.Series(np.arange(GENES) < 3, index=adata.var_names)
    gpca(adata, 2, mask_var=mask[::-1])
    used = np.any(adata.varm["X_gpca"] != 0, axis=1)
    np.testing.assert_array_equal(used, mask)
    with pytest.raises(InputError, match="the index of mask_var is not the names of the genes"):
        gpca(adata, 2, mask_var=mask.reset_index(drop=True).rename(lambda i: f"g{i}"))


def test_backed_objects_are_refused_before_the_fit(adata, tmp_path, monkeypatch):
    adata.write_h5ad(tmp_path / "a.h5ad")
    monkeypatch.setattr("gpcanet.integrations.anndata.GPCA", None)
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    for refused, options in ((backed, {"copy": True}), (backed[:10], {})):
        with pytest.raises(InputError, match=r"a backed AnnData object cannot be copied"):
            gpca(refused, 2, **options)
    backed.file.close()
