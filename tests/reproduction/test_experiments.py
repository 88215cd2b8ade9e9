"""Rows, candidates and seeds are those of the paper, its supplement and the authors' code."""

import itertools
from dataclasses import replace
from functools import partial

import pytest

from gpcanet.datasets.planetoid import CITATION_GRAPHS
from reproduction.cells import PUBLIC, Cell, Run, Setup, Split
from reproduction.experiments import (
    EXPERIMENTS,
    INITS,
    Row,
    all_row_specs,
    datasets_of,
    public_runs,
    row_specs,
)
from reproduction.pools import DATASETS, POOLS, PROTOCOLS, SettingPool
from reproduction.verdicts import published_rows

#: Table 5 of the supplement; alpha is for GPCA, and betas above 0 for what Table 2 adds.
ALPHAS = [1, 5, 10, 20, 50]
LAYERS = [2, 3, 5, 10, 15]
HIDDEN = [128, 256]
SUPPLEMENT = {
    "cora": {"lr": 0.001, "wd": [0.0005, 0.005, 0.05], "dropout": [0, 0.5], "beta": [0.1, 0.2]},
    "citeseer": {"lr": 0.001, "wd": [0.0005, 0.005, 0.05], "dropout": [0, 0.5], "beta": [0.1, 0.2]},
    "pubmed": {"lr": 0.001, "wd": [0.0005, 0.005, 0.05], "dropout": [0, 0.5], "beta": [0.1, 0.2]},
    "ogbn-arxiv": {"lr": 0.005, "wd": [0], "dropout": [0, 0.2], "beta": []},
    "ogbn-products": {"lr": 0.001, "wd": [0], "dropout": [0, 0.1], "beta": []},
}

#: Table 6: alphas of GPCANet by its layers.
ALPHAS_OF_LAYERS = {1: [10, 20, 30], 2: [3, 5, 10], 3: [1, 2, 3, 5]}

#: In the authors' repository there are others, and seeds for each method.
AUTHORS_ALPHAS_OF_LAYERS = {1: [10, 20, 30], 2: [5, 10, 15], 3: [3, 5, 10]}
FOUR = (105, 15213, 15217, 9195)
AUTHORS_SEEDS = {"gpca": FOUR, "gcn": FOUR, "gpcanet": (*FOUR, 1010)}

#: Experiments that ogbn-* has no part in: no betas, and splits that are part of the data.
CITATION_GRAPHS_ONLY = ("table2", "random", "fewer")

every_dataset = pytest.mark.parametrize("dataset", DATASETS)
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def spec_of(experiment, protocol="paper", pool="full", dataset="cora", **fields):
    """The one spec of a table whose row has these fields, and no others fixed."""
    fields = {"supervised": False, "alpha": None, "beta": None, "layers": None} | fields
    found = [
        spec
        for spec in row_specs(experiment, protocol, pool, dataset)
        if vars(spec.row).items() >= fields.items()
    ]
    (spec,) = found
    return spec


def pool_of(found, *names):
    """The values of some options; every combination must be present once."""
    chosen = [tuple(setup[name] for name in names) for setup in found.candidates]
    values = [list(dict.fromkeys(column)) for column in zip(*chosen, strict=True)]
    assert sorted(chosen) == sorted(itertools.product(*values))
    return values


# -- all rows ------------------------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_builds(experiment, pool, protocol):
    for dataset in datasets_of(experiment):
        found = row_specs(experiment, protocol, pool, dataset)
        assert bool(found) != (experiment in CITATION_GRAPHS_ONLY and dataset.startswith("ogbn"))
        assert len({one.row for one in found}) == len(found)
        for one in found:
            assert (one.row.experiment, one.row.dataset, one.pool) == (experiment, dataset, pool)
            assert Row.from_json(one.row.to_json()) == one.row
            assert one.candidates
            assert len(set(one.candidates)) == len(one.candidates)
            assert {setup.dataset for setup in one.candidates} == {dataset}
            assert one.selection_runs
            assert one.runs
            assert len(set(one.selection_runs)) == len(one.selection_runs)
            assert len(set(one.runs)) == len(one.runs)
            for cell in one.final_cells(one.candidates[0]):
                assert Cell.from_json(cell.to_json()) == cell


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("table5", "paper", "full", "cora"), "experiment='table5' must be one of 'table1'"),
        (("table1", "mine", "full", "cora"), "protocol='mine' must be one of 'paper'"),
        (("table1", "paper", "fat", "cora"), "pool='fat' must be one of 'full', 'lean'"),
        (("table1", "paper", "full", "karate"), "dataset='karate' must be one of 'cora'"),
        (("table1", "paper", "full", "arxiv-size"), "dataset='arxiv-size' must be one of 'cora'"),
        (("scale", "paper", "full", "cora"), "dataset='cora' must be one of 'arxiv-size'"),
    ],
)
def test_unknown_names_raise(given, message):
    with pytest.raises(ValueError, match=message):
        row_specs(*given)


@every_dataset
@pytest.mark.parametrize("table", ["table1", "table2", "table3", "table4"])
def test_published_rows_are_the_rows_of_the_tables(table, dataset):
    own = [row for row in published_rows() if (row.experiment, row.dataset) == (table, dataset)]
    published = {row.settings for row in own}
    for protocol in PROTOCOLS:
        rows = [one.row for one in row_specs(table, protocol, "full", dataset)]
        added = {row.settings for row in rows if row.init in ("he", "orthogonal")}
        assert {row.settings for row in rows} - added == published
        assert len(added) == (2 * len(LAYERS) if table == "table4" else 0)


def test_published_rows_have_known_datasets():
    assert {row.dataset for row in published_rows()} == set(DATASETS)


def test_fingerprints_depend_on_candidates_and_runs():
    one = spec_of("table3", method="gcn")
    assert one.fingerprint() == replace(one, pool="lean").fingerprint()
    others = [
        replace(one, candidates=one.candidates[1:]),
        replace(one, selection_runs=one.selection_runs[1:]),
        replace(one, runs=one.runs[1:]),
        replace(one, runs=(Run(Split(random_seed=0), 0), *one.runs[1:])),
    ]
    assert len({spec.fingerprint() for spec in (one, *others)}) == 5


def test_rows_are_unique_within_a_pool():
    rows = [(spec.row, spec.pool, spec) for spec in all_row_specs()]
    assert len({key[:2] for key in rows}) == len(set(rows))


# -- the full pool -------------------------------------------------------------------------------


def test_number_of_gpca_runs_on_cora_is_that_of_the_paper():
    cells = {
        cell
        for one in row_specs("table1", "paper", "full", "cora")
        if one.row.method == "gpca"
        for cell in one.selection_cells()
    }
    assert len(cells) == 5 * 12 * 5
    assert {cell.seed for cell in cells} == set(range(5))
    assert {cell.split for cell in cells} == {PUBLIC}


@every_dataset
def test_pools_of_gpca_are_those_of_the_supplement(dataset):
    of = SUPPLEMENT[dataset]
    names = ("alpha", "beta", "hidden", "weight_decay", "dropout")
    rest = [HIDDEN, of["wd"], of["dropout"]]
    for protocol in ("paper", "authors-code"):
        gpca = partial(spec_of, protocol=protocol, dataset=dataset, method="gpca")
        assert pool_of(gpca("table1"), *names) == [ALPHAS, [0], *rest]
        for alpha in ALPHAS:
            assert pool_of(gpca("table1", alpha=alpha), *names) == [[alpha], [0], *rest]
        if not of["beta"]:
            assert row_specs("table2", protocol, "full", dataset) == []
            continue
        assert gpca("table2").candidates == gpca("table1").candidates
        supervised = partial(gpca, "table2", supervised=True)
        assert pool_of(supervised(), *names) == [ALPHAS, of["beta"], *rest]
        for beta in of["beta"]:
            assert pool_of(supervised(beta=beta), *names) == [ALPHAS, [beta], *rest]


@every_dataset
@every_protocol
def test_pools_of_gcn_are_those_of_the_supplement(dataset, protocol):
    of = SUPPLEMENT[dataset]
    names = ("lr", "layers", "hidden", "weight_decay", "dropout", "init")
    rest = [HIDDEN, of["wd"], of["dropout"]]
    for table in ("table1", "table3"):
        gcn = spec_of(table, protocol, dataset=dataset, method="gcn")
        assert pool_of(gcn, *names) == [[of["lr"]], LAYERS, *rest, ["xavier"]]
        authors = protocol == "authors-code"
        assert gcn.row.protocol == (protocol if authors else "paper")
        assert {setup.get("normalization", "sym") for setup in gcn.candidates} == (
            {"rw"} if authors else {"sym"}
        )
        seeds = AUTHORS_SEEDS["gcn"] if authors else range(5)
        assert gcn.runs == gcn.selection_runs == public_runs(seeds)
    for layers, init in itertools.product(LAYERS, INITS):
        one = spec_of("table4", protocol, dataset=dataset, layers=layers, init=init)
        assert pool_of(one, *names) == [[of["lr"]], [layers], *rest, [init]]


@every_dataset
@every_protocol
def test_pools_of_gpcanet_are_those_of_the_supplement_or_of_the_authors_code(dataset, protocol):
    of = SUPPLEMENT[dataset]
    found = spec_of("table3", protocol, dataset=dataset, method="gpcanet").candidates
    alphas = AUTHORS_ALPHAS_OF_LAYERS if protocol == "authors-code" else ALPHAS_OF_LAYERS
    pairs = [(layers, alpha) for layers, pool in alphas.items() for alpha in pool]
    expected = itertools.product(pairs, HIDDEN, of["wd"], of["dropout"])
    assert [
        ((s["layers"], s["alpha"]), s["hidden"], s["weight_decay"], s["dropout"]) for s in found
    ] == list(expected)
    assert {setup["lr"] for setup in found} == {of["lr"]}


def test_options_of_gpca_by_protocol():
    paper, authors, ours = (
        spec_of("table1", protocol, method="gpca").candidates[0] for protocol in PROTOCOLS
    )
    how = ("normalization", "n_iter", "triangle", "head", "lr", "epochs", "eval_every", "dropouts",
           "later_of_ties", "ghost")  # fmt: skip
    assert [paper[name] for name in how] == [
        "sym", 5, "both", "linear", 0.1, 1000, 1, 1, False, "paper",
    ]  # fmt: skip
    assert [authors[name] for name in how] == [
        "rw", 10, "upper", "linear", 0.1, 500, 5, 1, True, "paper",
    ]  # fmt: skip
    assert ours.subset(*how) == {"normalization": "sym", "head": "logistic", "ghost": "balanced"}
    for protocol, dataset in itertools.product(PROTOCOLS[:2], DATASETS[3:]):
        large = spec_of("table1", protocol, dataset=dataset, method="gpca").candidates
        assert {setup["head"] for setup in large} == {"two-layer"}


def test_options_of_gpcanet_by_protocol():
    how = ("normalization", "n_iter", "triangle", "epochs", "eval_every", "dropouts")
    found = [spec_of("table3", protocol, method="gpcanet").candidates[0] for protocol in PROTOCOLS]
    assert [[setup[name] for name in how] for setup in found] == [
        ["sym", 5, "both", 1000, 1, 1],
        ["rw", 5, "upper", 1000, 5, 2],
        ["sym", 10, "both", 1000, 1, 1],
    ]


def test_networks_of_the_paper_train_for_1000_epochs():
    for one in (*row_specs("table3", "paper", "full", "cora"),
                *row_specs("table4", "paper", "full", "cora")):  # fmt: skip
        assert {(s["epochs"], s["eval_every"], s.get("patience")) for s in one.candidates} == {
            (1000, 1, None)
        }


def test_deterministic_heads_have_one_run():
    for one in row_specs("table1", "ours", "full", "cora")[1:]:
        assert one.selection_runs == one.runs == public_runs([0])


# -- seeds ---------------------------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize("method", ["gpca", "gpcanet", "gcn"])
def test_seeds_are_0_to_4_except_in_the_authors_code(protocol, method):
    own = AUTHORS_SEEDS if protocol == "authors-code" else {}
    seeds = SettingPool(protocol, "full", "cora").seeds(method)
    assert tuple(seeds) == own.get(method, (0, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("table", "method", "count"), [("table1", "gpca", 4), ("table3", "gpcanet", 5)]
)
def test_the_authors_gpca_has_four_seeds_and_their_gpcanet_five(table, method, count):
    one = spec_of(table, "authors-code", method=method)
    assert one.runs == one.selection_runs == public_runs(AUTHORS_SEEDS[method])
    assert len(one.runs) == count
    assert len(set(one.selection_cells())) == count * len(one.candidates)
    assert len(set(one.final_cells(one.candidates[0]))) == count


# -- the lean pool -------------------------------------------------------------------------------


@every_dataset
@every_protocol
@pytest.mark.parametrize("table", ["table1", "table2"])
def test_gpca_has_the_full_pool_in_lean(table, protocol, dataset):
    pairs = zip(*(row_specs(table, protocol, pool, dataset) for pool in POOLS), strict=True)
    for full, lean in pairs:
        assert (full.row, full.runs) == (lean.row, lean.runs)
        if full.row.method == "gpca":
            assert full == replace(lean, pool="full")


def without_training(setup):
    left = {name: value for name, value in setup.options if name not in ("patience", "eval_every")}
    return Setup.of(setup.method, setup.dataset, **left)


def assert_lean_is_subset_of_full(experiment, protocol, dataset):
    full = {one.row: one for one in row_specs(experiment, protocol, "full", dataset)}
    for lean in row_specs(experiment, protocol, "lean", dataset):
        whole = full[lean.row]
        known = {without_training(setup) for setup in whole.candidates}
        assert {without_training(setup) for setup in lean.candidates} <= known
        assert {(s["patience"], s["eval_every"]) for s in lean.candidates} == {(100, 5)}
        assert set(lean.selection_runs) <= set(whole.selection_runs)
        assert set(lean.runs) <= set(whole.runs)


@pytest.mark.parametrize("dataset", CITATION_GRAPHS)
@every_protocol
@pytest.mark.parametrize("experiment", ["table3", "table4", "figure1", "fewer"])
def test_lean_is_a_subset_of_full(experiment, protocol, dataset):
    assert_lean_is_subset_of_full(experiment, protocol, dataset)


@pytest.mark.parametrize("dataset", DATASETS[3:])
def test_lean_gpcanet_is_a_subset_of_full_on_ogb(dataset):
    assert_lean_is_subset_of_full("table3", "paper", dataset)


def test_lean_trains_for_the_epochs_of_the_protocol_on_products():
    assert_lean_is_subset_of_full("table4", "authors-code", "ogbn-products")


def test_lean_networks_are_selected_by_one_seed_and_run_with_five():
    for layers, init in ((2, "xavier"), (15, "gpca")):
        one = spec_of("table4", pool="lean", layers=layers, init=init)
        assert one.selection_runs == public_runs([0])
        assert one.runs == public_runs(range(5))


def test_table4_of_the_authors_code_has_random_walks_and_four_seeds():
    for one in row_specs("table4", "authors-code", "lean", "cora"):
        assert {setup["normalization"] for setup in one.candidates} == {"rw"}
        assert one.runs == public_runs([105, 15213, 15217, 9195])


@every_protocol
@pytest.mark.parametrize("dataset", ["citeseer", "pubmed"])
def test_lean_gpcanet_has_the_middle_alpha_of_each_depth(protocol, dataset):
    found = spec_of("table3", protocol, "lean", dataset, method="gpcanet").candidates
    middle = {1: 20, 2: 10, 3: 5} if protocol == "authors-code" else {1: 20, 2: 5, 3: 3}
    assert {(s["layers"], s["alpha"]) for s in found} == set(middle.items())


def test_lean_pools_that_differ_by_dataset():
    citeseer = spec_of("table4", pool="lean", dataset="citeseer", layers=2, init="gpca").candidates
    assert {setup["weight_decay"] for setup in citeseer} == {0.0005, 0.05}
    for dataset, dropout in [("cora", 0.5), ("ogbn-arxiv", 0.2), ("ogbn-products", 0.1)]:
        found = spec_of("table3", pool="lean", dataset=dataset, method="gpcanet").candidates
        assert {setup["dropout"] for setup in found} == {dropout}


# -- figures and additions -----------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize("dataset", CITATION_GRAPHS)
def test_random_splits_are_the_same_for_all_methods(protocol, dataset):
    found = row_specs("random", protocol, "full", dataset)
    expected = tuple(Run(Split(random_seed=seed), seed) for seed in range(10))
    assert {one.runs for one in found} == {expected}
    assert {run.split for one in found for run in one.selection_runs} == {PUBLIC}
    row = partial(Row, "random", protocol, dataset)
    networks = [row("gcn", layers=layers, init=init) for layers in (2, 15) for init in INITS]
    rows = [row("gpca"), row("gpca", supervised=True)]
    rows += [row("gcn"), *networks] if protocol == "paper" else []
    assert [one.row for one in found] == rows


def test_the_grid_of_figure_1():
    found = row_specs("figure1", "paper", "full", "cora")
    assert {(one.row.layers, one.row.alpha) for one in found} == {
        (layers, alpha) for layers in range(2, 11) for alpha in (0.1, 0.2, 0.5, 1, 2, 5, 10)
    }
    assert {setup["hidden"] for one in found for setup in one.candidates} == {128}


def test_histograms_have_100_seeds():
    for one in row_specs("histograms", "paper", "full", "cora"):
        assert one.runs == public_runs(range(100))


def test_splits_of_reduced_training_sets():
    splits = {
        one.row.labels_per_class: {run.split for run in one.runs}
        for one in row_specs("fewer", "paper", "full", "cora")
    }
    assert splits == {
        **{count: {Split(labels_per_class=count)} for count in (1, 2, 5, 10)},
        20: {PUBLIC},
    }
