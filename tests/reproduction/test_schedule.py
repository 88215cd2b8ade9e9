"""Which cells a worker is handed next, and how far a reproduction is."""

from tiny_cells import TWO_STAGES, entry, linear, logistic, public

from reproduction.cells import Setup
from reproduction.runner import MOST_CELLS, State, next_group, state_of

ALL_DONE = {"status": "done", "accuracy": {"validation": 0.5, "test": 0.5}, "seconds": 2.0}


def test_cells_with_the_same_embedding_go_together():
    cells = [
        linear(alpha=alpha, hidden=hidden).cell("public", seed)
        for alpha in (1, 5)
        for hidden in (8, 16)
        for seed in (0, 1)
    ]
    mixed = entry(
        "mixed", [linear(alpha=a, hidden=h) for h in (8, 16) for a in (1, 5)], public(0, 1)
    )
    first = next_group([mixed], {}, set())
    assert set(first) == set(cells[:4])
    second = next_group([mixed], {}, set(first))
    assert set(second) == set(cells[4:])
    assert next_group([mixed], {}, set(cells)) == []


def test_cells_of_one_path_go_together_whatever_their_alpha():
    path = entry("path", [logistic(alpha=alpha, C=C) for alpha in (1, 50) for C in (1, 10)])
    assert set(next_group([path], {}, set())) == set(path.cells_to_choose())


def test_networks_go_alone():
    setups = [Setup.of("gcn", "cora", layers=layers) for layers in (2, 3)]
    networks = entry("networks", setups)
    assert next_group([networks], {}, set()) == [setups[0].cell("public", 0)]
    assert next_group([networks], {}, {setups[0].cell("public", 0)}) == [
        setups[1].cell("public", 0)
    ]


def test_neither_running_nor_known_cells_are_handed_out():
    entries = [
        entry("one", [linear(hidden=hidden) for hidden in (4, 8, 16)]),
        entry("other", [linear(hidden=hidden) for hidden in (8, 16, 32)]),
    ]
    cells = {hidden: linear(hidden=hidden).cell("public", 0) for hidden in (4, 8, 16, 32)}
    records = {cells[4]: ALL_DONE}
    assert next_group(entries, records, {cells[8]}) == [cells[16]]
    assert next_group(entries, records, {cells[8], cells[16]}) == [cells[32]]
    assert next_group(entries, records, {cells[8], cells[16], cells[32]}) == []
    assert next_group(entries, dict.fromkeys(cells.values(), ALL_DONE), set()) == []


def test_no_more_than_a_worker_should_lose():
    runs = public(*range(MOST_CELLS + 30), 0, 1)
    many = entry("many", [linear()], runs=runs)
    group = next_group([many], {}, set())
    assert len(group) == len(set(group)) == MOST_CELLS
    rest = next_group([many], {}, set(group))
    assert len(rest) == 30
    assert not set(rest) & set(group)


def test_the_second_stage_waits_for_the_first():
    cells = TWO_STAGES.cells_to_choose()
    records = dict.fromkeys(cells[1:], ALL_DONE)
    assert next_group([TWO_STAGES], records, {cells[0]}) == []
    records[cells[0]] = ALL_DONE
    chosen = TWO_STAGES.candidates[0]
    assert next_group([TWO_STAGES], records, set()) == [
        chosen.cell("public", seed) for seed in (2, 3)
    ]


def test_the_state_counts_cells_once_and_estimates_the_rest():
    same = entry("same", TWO_STAGES.candidates[:2], public(0, 1), public(0, 1))
    entries, cells = [TWO_STAGES, same], TWO_STAGES.cells_to_choose()
    assert state_of(entries, {}, 2) == State(0, 8 + 2, 0, None)
    records = {cells[0]: {**ALL_DONE, "seconds": 1.0}, cells[1]: {**ALL_DONE, "seconds": 3.0}}
    assert state_of(entries, records, 2) == State(2, 10, 0, 8 * 2.0 / 2)
    records = dict.fromkeys(cells, ALL_DONE)
    assert state_of(entries, records, 1) == State(8, 10, 0, 4.0)
    records |= {TWO_STAGES.candidates[0].cell("public", seed): ALL_DONE for seed in (2, 3)}
    assert state_of(entries, records, 1) == State(10, 10, 0, 0)


def test_failures_are_counted_as_done_and_give_no_estimate():
    failed = {"status": "failed", "reason": "x", "seconds": 0.1}
    cells = TWO_STAGES.cells_to_choose()
    assert state_of([TWO_STAGES], {cells[0]: failed}, 1) == State(1, 10, 1, None)
    records = {cells[0]: failed, cells[1]: ALL_DONE}
    assert state_of([TWO_STAGES], records, 1) == State(2, 10, 1, 8 * 2.0)


def test_the_estimate_is_from_cells_most_like_it():
    gcn = {layers: Setup.of("gcn", "cora", layers=layers, init="he") for layers in (2, 15)}
    entries = [
        entry("few", [gcn[2]], runs=public(0, 1)),
        entry("many", [gcn[15]], runs=public(0, 1)),
    ]
    records = {
        gcn[2].cell("public", 0): {**ALL_DONE, "seconds": 1.0},
        gcn[15].cell("public", 0): {**ALL_DONE, "seconds": 9.0},
    }
    assert state_of(entries, records, 1).seconds_left == 10
    other = entry("other", [Setup.of("gcn", "cora", layers=3)])
    assert state_of([*entries, other], records, 1).seconds_left == 10 + 5
    elsewhere = entry("elsewhere", [Setup.of("gpcanet", "pubmed", layers=3)])
    assert state_of([*entries, elsewhere], records, 1).seconds_left == 10 + 5


def test_the_state_knows_of_processes_that_died():
    died = {"status": "failed", "reason": "the process was ended by SIGKILL", "seconds": 0.0}
    records = {TWO_STAGES.cells_to_choose()[0]: died}
    assert state_of([TWO_STAGES], records, 1).failed == 1


def test_where_all_candidates_failed_nothing_is_left():
    failed = {"status": "failed", "reason": "x", "seconds": 2.0}
    records = dict.fromkeys(TWO_STAGES.cells_to_choose(), failed)
    assert next_group([TWO_STAGES], records, set()) == []
    assert state_of([TWO_STAGES], records, 1) == State(8, 8, 8, None)
