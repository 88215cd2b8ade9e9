"""Scheduling of cells, and progress."""

from tiny_cells import TWO_STAGES, linear, logistic, public, spec

from reproduction.cells import PUBLIC, Setup
from reproduction.schedule import MAX_CELLS, Progress, next_group, progress_of

ALL_DONE = {"status": "done", "accuracy": {"validation": 0.5, "test": 0.5}, "seconds": 2.0}


def test_cells_with_the_same_embedding_form_a_group():
    cells = [
        linear(alpha=alpha, hidden=hidden).cell(PUBLIC, seed)
        for alpha in (1, 5)
        for hidden in (8, 16)
        for seed in (0, 1)
    ]
    mixed = spec([linear(alpha=a, hidden=h) for h in (8, 16) for a in (1, 5)], public(0, 1))
    first = next_group([mixed], {}, set())
    assert set(first) == set(cells[:4])
    second = next_group([mixed], {}, set(first))
    assert set(second) == set(cells[4:])
    assert next_group([mixed], {}, set(cells)) == []


def test_cells_of_one_path_form_a_group_for_all_alphas():
    path = spec([logistic(alpha=alpha, C=C) for alpha in (1, 50) for C in (1, 10)])
    assert set(next_group([path], {}, set())) == set(path.selection_cells())


def test_networks_run_one_by_one():
    setups = [Setup.of("gcn", "cora", layers=layers) for layers in (2, 3)]
    networks = spec(setups)
    assert next_group([networks], {}, set()) == [setups[0].cell(PUBLIC, 0)]
    assert next_group([networks], {}, {setups[0].cell(PUBLIC, 0)}) == [setups[1].cell(PUBLIC, 0)]


def test_running_and_known_cells_are_not_assigned():
    specs = [
        spec([linear(hidden=hidden) for hidden in (4, 8, 16)]),
        spec([linear(hidden=hidden) for hidden in (8, 16, 32)]),
    ]
    cells = {hidden: linear(hidden=hidden).cell(PUBLIC, 0) for hidden in (4, 8, 16, 32)}
    records = {cells[4]: ALL_DONE}
    assert next_group(specs, records, {cells[8]}) == [cells[16]]
    assert next_group(specs, records, {cells[8], cells[16]}) == [cells[32]]
    assert next_group(specs, records, {cells[8], cells[16], cells[32]}) == []
    assert next_group(specs, dict.fromkeys(cells.values(), ALL_DONE), set()) == []


def test_groups_are_limited_in_size():
    runs = public(*range(MAX_CELLS + 30), 0, 1)
    many = spec([linear()], runs=runs)
    group = next_group([many], {}, set())
    assert len(group) == len(set(group)) == MAX_CELLS
    rest = next_group([many], {}, set(group))
    assert len(rest) == 30
    assert not set(rest) & set(group)


def test_final_runs_wait_for_the_selection():
    cells = TWO_STAGES.selection_cells()
    records = dict.fromkeys(cells[1:], ALL_DONE)
    assert next_group([TWO_STAGES], records, {cells[0]}) == []
    records[cells[0]] = ALL_DONE
    chosen = TWO_STAGES.candidates[0]
    assert next_group([TWO_STAGES], records, set()) == [
        chosen.cell(PUBLIC, seed) for seed in (2, 3)
    ]


def test_progress_counts_shared_cells_once():
    same = spec(TWO_STAGES.candidates[:2], public(0, 1), public(0, 1))
    specs, cells = [TWO_STAGES, same], TWO_STAGES.selection_cells()
    assert progress_of(specs, {}, 2) == Progress(0, 8 + 2, 0, None)
    records = {cells[0]: {**ALL_DONE, "seconds": 1.0}, cells[1]: {**ALL_DONE, "seconds": 3.0}}
    assert progress_of(specs, records, 2) == Progress(2, 10, 0, 8 * 2.0 / 2)
    records = dict.fromkeys(cells, ALL_DONE)
    assert progress_of(specs, records, 1) == Progress(8, 10, 0, 4.0)
    records |= {TWO_STAGES.candidates[0].cell(PUBLIC, seed): ALL_DONE for seed in (2, 3)}
    assert progress_of(specs, records, 1) == Progress(10, 10, 0, 0)


def test_failures_count_as_done_and_not_for_the_estimate():
    failed = {"status": "failed", "reason": "x", "seconds": 0.1}
    cells = TWO_STAGES.selection_cells()
    assert progress_of([TWO_STAGES], {cells[0]: failed}, 1) == Progress(1, 10, 1, None)
    records = {cells[0]: failed, cells[1]: ALL_DONE}
    assert progress_of([TWO_STAGES], records, 1) == Progress(2, 10, 1, 8 * 2.0)


def test_estimate_uses_the_most_similar_cells():
    gcn = {layers: Setup.of("gcn", "cora", layers=layers, init="he") for layers in (2, 15)}
    specs = [
        spec([gcn[2]], runs=public(0, 1)),
        spec([gcn[15]], runs=public(0, 1)),
    ]
    records = {
        gcn[2].cell(PUBLIC, 0): {**ALL_DONE, "seconds": 1.0},
        gcn[15].cell(PUBLIC, 0): {**ALL_DONE, "seconds": 9.0},
    }
    assert progress_of(specs, records, 1).seconds_left == 10
    other = spec([Setup.of("gcn", "cora", layers=3)])
    assert progress_of([*specs, other], records, 1).seconds_left == 10 + 5
    elsewhere = spec([Setup.of("gpcanet", "pubmed", layers=3)])
    assert progress_of([*specs, elsewhere], records, 1).seconds_left == 10 + 5


def test_cells_of_killed_workers_count_as_failed():
    died = {"status": "failed", "reason": "the process was ended by SIGKILL", "seconds": 0.0}
    records = {TWO_STAGES.selection_cells()[0]: died}
    assert progress_of([TWO_STAGES], records, 1).failed == 1


def test_nothing_is_left_if_all_candidates_failed():
    failed = {"status": "failed", "reason": "x", "seconds": 2.0}
    records = dict.fromkeys(TWO_STAGES.selection_cells(), failed)
    assert next_group([TWO_STAGES], records, set()) == []
    assert progress_of([TWO_STAGES], records, 1) == Progress(8, 8, 8, None)
