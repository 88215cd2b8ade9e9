"""Entries are what the paper, its supplement and the authors' code say."""

import itertools

import pytest

from reproduction.cells import Cell, Setup
from reproduction.entries import (
    CITATION_GRAPHS,
    DATASETS,
    EXPERIMENTS,
    GENERATED,
    POOLS,
    PROTOCOLS,
    Plan,
    entries_of,
    read_toml,
)

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


def entry(experiment, row, protocol="paper", pool="full", dataset="cora"):
    found = {one.row: one for one in entries_of(experiment, protocol, pool, dataset)}
    return found[row]


def pool_of(found, *names):
    """Which values some options take, and that every combination is there, each once."""
    chosen = [tuple(setup[name] for name in names) for setup in found.candidates]
    values = [list(dict.fromkeys(column)) for column in zip(*chosen, strict=True)]
    assert sorted(chosen) == sorted(itertools.product(*values))
    return values


# -- all entries ---------------------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_builds(experiment, pool, protocol):
    for dataset in GENERATED if experiment == "scale" else DATASETS:
        found = entries_of(experiment, protocol, pool, dataset)
        assert bool(found) != (experiment in CITATION_GRAPHS_ONLY and dataset.startswith("ogbn"))
        assert len({one.row for one in found}) == len(found)
        for one in found:
            assert (one.experiment, one.dataset, one.pool) == (experiment, dataset, pool)
            assert one.candidates
            assert len(set(one.candidates)) == len(one.candidates)
            assert {setup.dataset for setup in one.candidates} == {dataset}
            assert one.select
            assert one.runs
            assert len(set(one.select)) == len(one.select)
            assert len(set(one.runs)) == len(one.runs)
            for cell in one.cells_to_report(one.candidates[0]):
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
def test_names_that_are_not_known(given, message):
    with pytest.raises(ValueError, match=message):
        entries_of(*given)


@every_dataset
@pytest.mark.parametrize("table", ["table1", "table2", "table3", "table4"])
def test_every_published_row_is_an_entry_and_every_entry_is_published(table, dataset):
    published = read_toml("published")[table].get(dataset, {})
    for protocol in PROTOCOLS:
        rows = [one.row for one in entries_of(table, protocol, "full", dataset)]
        ours = [row for row in rows if row.endswith((", He", ", orthogonal"))]
        assert set(rows) - set(ours) == set(published)
        assert len(ours) == (2 * len(LAYERS) if table == "table4" else 0)


def test_published_rows_are_all_of_known_datasets():
    for table in ("table1", "table2", "table3", "table4"):
        assert set(read_toml("published")[table]) <= set(DATASETS)


# -- the full pool -------------------------------------------------------------------------------


def test_gpca_on_cora_runs_as_often_as_the_paper_says():
    cells = {
        cell
        for one in entries_of("table1", "paper", "full", "cora")
        if one.row != "GCN"
        for cell in one.cells_to_choose()
    }
    assert len(cells) == 5 * 12 * 5
    assert {cell.seed for cell in cells} == set(range(5))
    assert {cell.split for cell in cells} == {"public"}


@every_dataset
def test_pools_of_gpca_are_those_of_the_supplement(dataset):
    of = SUPPLEMENT[dataset]
    names = ("alpha", "beta", "hidden", "weight_decay", "dropout")
    rest = [HIDDEN, of["wd"], of["dropout"]]
    for protocol in ("paper", "authors-code"):
        found = {one.row: one for one in entries_of("table1", protocol, "full", dataset)}
        assert pool_of(found["GPCA, all alpha"], *names) == [ALPHAS, [0], *rest]
        for alpha in ALPHAS:
            assert pool_of(found[f"GPCA, alpha = {alpha}"], *names) == [[alpha], [0], *rest]
        found = {one.row: one for one in entries_of("table2", protocol, "full", dataset)}
        if not of["beta"]:
            assert found == {}
            continue
        assert found["Unsupervised GPCA"].candidates == (
            entry("table1", "GPCA, all alpha", protocol, dataset=dataset).candidates
        )
        beside = found["Supervised GPCA, all beta"]
        assert pool_of(beside, *names) == [ALPHAS, of["beta"], *rest]
        for beta in of["beta"]:
            one = found[f"Supervised GPCA, beta = {beta}"]
            assert pool_of(one, *names) == [ALPHAS, [beta], *rest]


@every_dataset
@every_protocol
def test_pools_of_gcn_are_those_of_the_supplement(dataset, protocol):
    of = SUPPLEMENT[dataset]
    names = ("lr", "layers", "hidden", "weight_decay", "dropout", "init")
    rest = [HIDDEN, of["wd"], of["dropout"]]
    for table in ("table1", "table3"):
        gcn = entry(table, "GCN", protocol, dataset=dataset)
        assert pool_of(gcn, *names) == [[of["lr"]], LAYERS, *rest, ["xavier"]]
        authors = protocol == "authors-code"
        assert gcn.protocol == (protocol if authors else "paper")
        assert {setup.get("normalization", "sym") for setup in gcn.candidates} == (
            {"rw"} if authors else {"sym"}
        )
        seeds = AUTHORS_SEEDS["gcn"] if authors else range(5)
        assert gcn.runs == gcn.select == tuple(("public", seed) for seed in seeds)
    for layers, init in itertools.product(LAYERS, ("Xavier", "GPCA", "He", "orthogonal")):
        one = entry("table4", f"{layers} layers, {init}", protocol, dataset=dataset)
        assert pool_of(one, *names) == [[of["lr"]], [layers], *rest, [init.lower()]]


@every_dataset
@every_protocol
def test_pools_of_gpcanet_are_those_of_the_supplement_or_of_the_authors_code(dataset, protocol):
    of = SUPPLEMENT[dataset]
    found = entry("table3", "GPCANet", protocol, dataset=dataset).candidates
    alphas = AUTHORS_ALPHAS_OF_LAYERS if protocol == "authors-code" else ALPHAS_OF_LAYERS
    pairs = [(layers, alpha) for layers, pool in alphas.items() for alpha in pool]
    expected = itertools.product(pairs, HIDDEN, of["wd"], of["dropout"])
    assert [
        ((s["layers"], s["alpha"]), s["hidden"], s["weight_decay"], s["dropout"]) for s in found
    ] == list(expected)
    assert {setup["lr"] for setup in found} == {of["lr"]}


def test_what_the_protocols_say_of_gpca():
    paper, authors, ours = (
        entry("table1", "GPCA, all alpha", protocol).candidates[0] for protocol in PROTOCOLS
    )
    how = ("normalization", "n_iter", "triangle", "head", "lr", "epochs", "eval_every", "dropouts",
           "later_of_ties", "ghost")  # fmt: skip
    assert [paper[name] for name in how] == [
        "sym", 5, "both", "linear", 0.1, 1000, 1, 1, False, "paper",
    ]  # fmt: skip
    assert [authors[name] for name in how] == [
        "rw", 10, "upper", "linear", 0.1, 500, 5, 1, True, "paper",
    ]  # fmt: skip
    assert ours.some(*how) == {"normalization": "sym", "head": "logistic", "ghost": "balanced"}
    for protocol, dataset in itertools.product(PROTOCOLS[:2], DATASETS[3:]):
        large = entry("table1", "GPCA, all alpha", protocol, dataset=dataset).candidates
        assert {setup["head"] for setup in large} == {"two-layer"}


def test_what_the_protocols_say_of_gpcanet():
    how = ("normalization", "n_iter", "triangle", "epochs", "eval_every", "dropouts")
    found = [entry("table3", "GPCANet", protocol).candidates[0] for protocol in PROTOCOLS]
    assert [[setup[name] for name in how] for setup in found] == [
        ["sym", 5, "both", 1000, 1, 1],
        ["rw", 5, "upper", 1000, 5, 2],
        ["sym", 10, "both", 1000, 1, 1],
    ]


def test_networks_train_for_1000_epochs_in_the_paper():
    for one in (*entries_of("table3", "paper", "full", "cora"),
                *entries_of("table4", "paper", "full", "cora")):  # fmt: skip
        assert {(s["epochs"], s["eval_every"], s.get("patience")) for s in one.candidates} == {
            (1000, 1, None)
        }


def test_a_closed_form_has_one_run():
    for one in entries_of("table1", "ours", "full", "cora")[1:]:
        assert one.select == one.runs == (("public", 0),)


# -- seeds ---------------------------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize("method", ["gpca", "gpcanet", "gcn"])
def test_seeds_are_0_to_4_but_in_the_authors_code(protocol, method):
    own = AUTHORS_SEEDS if protocol == "authors-code" else {}
    seeds = Plan(protocol, "full", "cora").seeds(method)
    assert tuple(seeds) == own.get(method, (0, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("table", "row", "method", "count"),
    [("table1", "GPCA, all alpha", "gpca", 4), ("table3", "GPCANet", "gpcanet", 5)],
)
def test_the_authors_gpca_has_four_seeds_and_their_gpcanet_five(table, row, method, count):
    one = entry(table, row, "authors-code")
    assert one.runs == one.select == tuple(("public", seed) for seed in AUTHORS_SEEDS[method])
    assert len(one.runs) == count
    assert len(set(one.cells_to_choose())) == count * len(one.candidates)
    assert len(set(one.cells_to_report(one.candidates[0]))) == count


# -- the lean pool -------------------------------------------------------------------------------


@every_dataset
@every_protocol
@pytest.mark.parametrize("table", ["table1", "table2"])
def test_gpca_is_never_lean(table, protocol, dataset):
    pairs = zip(*(entries_of(table, protocol, pool, dataset) for pool in POOLS), strict=True)
    for full, lean in pairs:
        assert (full.row, full.runs) == (lean.row, lean.runs)
        if full.row != "GCN":
            assert (full.candidates, full.select) == (lean.candidates, lean.select)


def without_training(setup):
    left = {name: value for name, value in setup.options if name not in ("patience", "eval_every")}
    return Setup.of(setup.method, setup.dataset, **left)


def assert_lean_is_a_part_of_full(experiment, protocol, dataset):
    full = {one.row: one for one in entries_of(experiment, protocol, "full", dataset)}
    for lean in entries_of(experiment, protocol, "lean", dataset):
        whole = full[lean.row]
        known = {without_training(setup) for setup in whole.candidates}
        assert {without_training(setup) for setup in lean.candidates} <= known
        assert {(s["patience"], s["eval_every"]) for s in lean.candidates} == {(100, 5)}
        assert set(lean.select) <= set(whole.select)
        assert set(lean.runs) <= set(whole.runs)


@pytest.mark.parametrize("dataset", CITATION_GRAPHS)
@every_protocol
@pytest.mark.parametrize("experiment", ["table3", "table4", "figure1", "fewer"])
def test_lean_is_a_part_of_full(experiment, protocol, dataset):
    assert_lean_is_a_part_of_full(experiment, protocol, dataset)


@pytest.mark.parametrize("dataset", DATASETS[3:])
def test_lean_gpcanet_is_a_part_of_full_on_ogb(dataset):
    assert_lean_is_a_part_of_full("table3", "paper", dataset)


def test_lean_trains_for_the_epochs_of_the_protocol_on_products():
    assert_lean_is_a_part_of_full("table4", "authors-code", "ogbn-products")


def test_lean_networks_are_chosen_by_one_seed_and_reported_by_five():
    for row in ("2 layers, Xavier", "15 layers, GPCA"):
        one = entry("table4", row, pool="lean")
        assert one.select == (("public", 0),)
        assert one.runs == tuple(("public", seed) for seed in range(5))


@every_protocol
@pytest.mark.parametrize("dataset", ["citeseer", "pubmed"])
def test_lean_gpcanet_has_the_middle_alpha_of_each_depth(protocol, dataset):
    found = entry("table3", "GPCANet", protocol, "lean", dataset).candidates
    middle = {1: 20, 2: 10, 3: 5} if protocol == "authors-code" else {1: 20, 2: 5, 3: 3}
    assert {(s["layers"], s["alpha"]) for s in found} == set(middle.items())


def test_lean_pools_that_differ_by_dataset():
    citeseer = entry("table4", "2 layers, GPCA", pool="lean", dataset="citeseer").candidates
    assert {setup["weight_decay"] for setup in citeseer} == {0.0005, 0.05}
    for dataset, dropout in [("cora", 0.5), ("ogbn-arxiv", 0.2), ("ogbn-products", 0.1)]:
        found = entry("table3", "GPCANet", pool="lean", dataset=dataset).candidates
        assert {setup["dropout"] for setup in found} == {dropout}


# -- figures and what the paper does not have ----------------------------------------------------


@every_protocol
@pytest.mark.parametrize("dataset", CITATION_GRAPHS)
def test_random_splits_are_the_same_for_all_methods(protocol, dataset):
    found = entries_of("random", protocol, "full", dataset)
    expected = tuple((f"random-{number}", number) for number in range(10))
    assert {one.runs for one in found} == {expected}
    assert {split for one in found for split, _ in one.select} == {"public"}
    networks = ["GCN"] + [
        f"{layers} layers, {init}"
        for layers in (2, 15)
        for init in ("Xavier", "GPCA", "He", "orthogonal")
    ]
    rows = ["GPCA", "Supervised GPCA", *(networks if protocol == "paper" else [])]
    assert [one.row for one in found] == rows


def test_the_grid_of_figure_1():
    found = entries_of("figure1", "paper", "full", "cora")
    assert {one.row for one in found} == {
        f"{layers} layers, alpha = {alpha}"
        for layers in range(2, 11)
        for alpha in (0.1, 0.2, 0.5, 1, 2, 5, 10)
    }
    assert {setup["hidden"] for one in found for setup in one.candidates} == {128}


def test_histograms_have_100_seeds():
    for one in entries_of("histograms", "paper", "full", "cora"):
        assert one.runs == tuple(("public", seed) for seed in range(100))


def test_all_labels_are_the_public_split_and_fewer_have_their_own():
    splits = {
        one.row.rpartition(", ")[2]: {split for split, _ in one.runs}
        for one in entries_of("fewer", "paper", "full", "cora")
    }
    assert splits == {
        "1 labels a class": {"fewer-1"},
        "2 labels a class": {"fewer-2"},
        "5 labels a class": {"fewer-5"},
        "10 labels a class": {"fewer-10"},
        "20 labels a class": {"public"},
    }
