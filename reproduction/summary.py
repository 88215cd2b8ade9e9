"""From records to a summary: results, missing rows, failures and costs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from functools import reduce
from typing import TypeVar

from .cells import Cell, Setup, Value, loading_cell
from .experiments import PUBLIC_LABELS_PER_CLASS, Row, RowSpec, all_row_specs
from .pools import DATASETS, POOLS, SettingPool
from .results import Cost, Failure, NearTies, Result, Summary
from .selection import Records, Selected, completed

#: Points of validation accuracy below the selected setting within which others are near ties.
NEAR_POINTS = 0.5

T = TypeVar("T")


def specs_for(records: Records) -> list[RowSpec]:
    """One spec for every row: of the largest pool that is complete, else of the most advanced."""
    best: dict[Row, tuple[tuple[bool, int], RowSpec]] = {}
    for spec in all_row_specs():
        n_done = sum(cell in records for cell in spec.selection_cells())
        progress = completed(spec, records) is not None, n_done
        known = best.get(spec.row)
        if known is None or (not known[0][0] and progress > known[0]):
            best[spec.row] = progress, spec
    return [spec for _, spec in best.values()]


def summarize(specs: Iterable[RowSpec], records: Records) -> Summary:
    """The results of all rows that have been run completely, and what is missing."""
    specs = list(specs)
    cells_of_table: dict[tuple[str, str, str], dict[Cell, None]] = {}
    results = []
    for spec in specs:
        cells = [cell for cell in spec.selection_cells() if cell in records]
        selected = completed(spec, records)
        if selected is not None:
            cells += spec.final_cells(selected.setup)
            results.append(_result(spec, selected, records))
        cells_of_table.setdefault(spec.row.table, {}).update(dict.fromkeys(cells))
    used = dict.fromkeys(cell for cells in cells_of_table.values() for cell in cells)
    results = _without_incomplete_experiments(results)
    shown_rows = {result.row for result in results}
    shown_tables = {row.table for row in shown_rows}
    return Summary(
        results=tuple(results),
        missing=tuple(spec.row for spec in specs if spec.row not in shown_rows),
        failed=tuple(
            Failure(cell, records[cell]["reason"])
            for cell in used
            if records[cell]["status"] == "failed"
        ),
        unavailable={
            name: record["reason"]
            for name in DATASETS
            if (record := records.get(loading_cell(name), {})).get("status") == "failed"
        },
        costs=tuple(
            Cost(*table, len(cells), _seconds(cells, records))
            for table, cells in cells_of_table.items()
            if table in shown_tables
        ),
        n_runs=len(used),
        seconds=_seconds(used, records),
        versions=_versions(used, records),
        machines=tuple(sorted({records[cell].get("machine", "") for cell in used} - {""})),
    )


def _result(spec: RowSpec, selected: Selected, records: Records) -> Result:
    test, interval = selected.test, selected.test.interval()
    return Result(
        row=spec.row,
        pool=spec.pool,
        fingerprint=spec.fingerprint(),
        values=tuple(round(value, 2) for value in test.values),
        mean=round(test.mean, 3),
        sd=round(test.sd, 3),
        interval=None if interval is None else (round(interval[0], 2), round(interval[1], 2)),
        validation=round(selected.validation.mean, 3),
        selected=_varied_options(spec, selected.setup),
        n_candidates=len(spec.candidates),
        n_selection_seeds=len(spec.selection_runs),
        best_epoch=statistics.median(record["best_epoch"] for record in selected.records),
        seconds_per_run=round(statistics.fmean(r["seconds"] for r in selected.records), 2),
        n_failed=selected.n_failed,
        runs=selected.runs if spec.row.experiment == "random" else (),
        near_ties=_near_ties(spec, selected.setup, records),
        curves=_curves(spec, selected),
    )


def _varied_options(spec: RowSpec, selected: Setup) -> dict[str, Value]:
    """The options of the selected setting in which the candidates differ."""
    return {
        name: value
        for name, value in selected.options
        if len({setup.get(name) for setup in spec.candidates}) > 1
    }


def _near_ties(spec: RowSpec, selected: Setup, records: Records) -> NearTies | None:
    means = {}
    for setup in spec.candidates:
        found = [records.get(setup.cell(*run), {}).get("accuracy") for run in spec.selection_runs]
        accuracies = [accuracy for accuracy in found if accuracy]
        if len(accuracies) == len(found):
            means[setup] = [
                100 * statistics.fmean(accuracy[part] for accuracy in accuracies)
                for part in ("validation", "test")
            ]
    if selected not in means:
        return None
    limit = means[selected][0] - NEAR_POINTS
    tests = [test for validation, test in means.values() if validation >= limit]
    if len(tests) < 2:
        return None
    return NearTies(len(tests), round(min(tests), 2), round(max(tests), 2))


def _curves(spec: RowSpec, selected: Selected) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Validation curves of the shallowest and the deepest networks of Table 4, as in the paper."""
    row = spec.row
    if (row.experiment, row.protocol) != ("table4", "paper"):
        return ()
    depths = SettingPool(row.protocol, spec.pool, row.dataset).depths
    if row.layers not in (min(depths), max(depths)):
        return ()
    return tuple(
        tuple((epoch, round(100 * accuracy, 1)) for epoch, _, accuracy in record["curve"])
        for record in selected.records
    )


def _without_incomplete_experiments(results: list[Result]) -> list[Result]:
    """Leave out experiments of which only runs shared with other experiments are complete."""

    def is_shown(experiment: str, rows: list[Row]) -> bool:
        if experiment == "fewer":
            return any(row.labels_per_class != PUBLIC_LABELS_PER_CLASS for row in rows)
        if experiment == "figure1":
            return len(rows) >= 4
        if experiment == "table4":
            return len({row.init for row in rows}) > 1
        return True

    rows_of: dict[tuple[str, str], list[Row]] = {}
    for result in results:
        rows_of.setdefault((result.row.experiment, result.row.dataset), []).append(result.row)
    shown = {key for key, rows in rows_of.items() if is_shown(key[0], rows)}
    return [r for r in results if (r.row.experiment, r.row.dataset) in shown]


def _seconds(cells: Iterable[Cell], records: Records) -> float:
    return round(sum(records[cell]["seconds"] for cell in cells), 1)


def _versions(cells: Iterable[Cell], records: Records) -> tuple[dict[str, str], ...]:
    """Each set of package versions that was used, once."""
    found = {tuple(sorted(records[cell].get("versions", {}).items())) for cell in cells}
    return tuple(dict(items) for items in sorted(found) if items)


# -- several summaries ------------------------------------------------------------------------


def merge_summaries(summaries: Iterable[Summary]) -> Summary:
    """One summary of several: for each row the last result of the largest pool.

    Results whose candidates or runs differ from those of this version are left out. Numbers of
    runs add up, including those of results that were replaced.
    """
    order: dict[Row, int] = {}
    current = set()
    for spec in all_row_specs():
        order.setdefault(spec.row, len(order))
        current.add((spec.row, spec.fingerprint()))

    def merge(older: Summary, newer: Summary) -> Summary:
        kept: dict[Row, Result] = {}
        for result in (*older.results, *newer.results):
            known = kept.get(result.row)
            is_smaller = known and POOLS.index(result.pool) > POOLS.index(known.pool)
            if (result.row, result.fingerprint) in current and not is_smaller:
                kept[result.row] = result
        rows = {
            row
            for summary in (older, newer)
            for row in (*summary.missing, *(result.row for result in summary.results))
        }
        missing = [row for row in rows if row in order and row not in kept]
        return Summary(
            results=tuple(sorted(kept.values(), key=lambda result: order[result.row])),
            missing=tuple(sorted(missing, key=order.__getitem__)),
            failed=_distinct((*older.failed, *newer.failed)),
            unavailable={**older.unavailable, **newer.unavailable},
            costs=_merged_costs(older, newer),
            n_runs=older.n_runs + newer.n_runs,
            seconds=round(older.seconds + newer.seconds, 1),
            versions=_distinct((*older.versions, *newer.versions)),
            machines=_distinct((*older.machines, *newer.machines)),
            notes=_distinct((*older.notes, *newer.notes)),
        )

    return reduce(merge, summaries, Summary())


def _merged_costs(older: Summary, newer: Summary) -> tuple[Cost, ...]:
    """Costs add up, except of tables whose older results were all replaced."""
    costs = {cost.table: cost for cost in older.costs}
    for cost in newer.costs:
        before, now = (
            {result.row for result in summary.results if result.row.table == cost.table}
            for summary in (older, newer)
        )
        known = costs.get(cost.table)
        if known is not None and not before <= now:
            seconds = round(known.seconds + cost.seconds, 1)
            cost = Cost(*cost.table, known.runs + cost.runs, seconds)
        costs[cost.table] = cost
    return tuple(costs.values())


def _distinct(items: tuple[T, ...]) -> tuple[T, ...]:
    """The items without repetitions; they need not be hashable."""
    return tuple(item for i, item in enumerate(items) if item not in items[:i])
