"""The command: python -m campaign."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.machine import machine, versions
from gpcanet.cli.entry import make_app, run_app
from gpcanet.errors import InputError
from gpcanet.linalg.parallel import available_cores
from gpcanet.utils.atomic import atomic_file, check_target

from .cases import Tally, run_cases

#: Parts and the share of the minutes that each gets.
PARTS = {"truth": 0.4, "faults": 0.3, "files": 0.2, "load": 0.1}

app = make_app("campaign")


@app.callback(invoke_without_command=True)
def campaign(
    minutes: Annotated[float, typer.Option(help="Minutes in all.")] = 10.0,
    parts: Annotated[str, typer.Option(help=f"Some of {', '.join(PARTS)}.")] = ",".join(PARTS),
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes at a time [the number of cores].")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File of figures.")] = None,
) -> None:
    """Look for wrong answers and lost files for some minutes.

    Prints a script that repeats each failure, and ends with a line of figures in JSON. The exit
    code is 1 if anything failed.
    """
    chosen = [part.strip() for part in parts.split(",") if part.strip()]
    unknown = [part for part in chosen if part not in PARTS]
    if unknown or not chosen:
        raise InputError(f"--parts {parts!r} must be some of {', '.join(PARTS)}")
    if output is not None:
        check_target(output, overwrite=True)
    total = sum(PARTS[part] for part in chosen)
    figures: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(), "commit": _commit(), "seed": seed,
        "machine": machine(), "versions": versions(), "parts": {},
    }  # fmt: skip
    n_failed = 0
    for part in chosen:
        start, seconds = time.monotonic(), 60 * minutes * PARTS[part] / total
        tally = _run(part, seed, seconds, jobs or available_cores())
        for failure in tally.failures:
            # A traceback has paths of this machine, so it is shown but not among the figures.
            print(failure.pop("details"), file=sys.stderr)
            print(f"\n# {part}: {failure['error']}\n{failure['script']}", flush=True)
        n_failed += len(tally.failures)
        figures["parts"][part] = {
            "cases": tally.n_cases,
            "failed": len(tally.failures),
            "minutes": round((time.monotonic() - start) / 60, 1),
            "counts": dict(sorted(tally.counts.items())),
            "failures": tally.failures,
        }
        print(f"{part}: {tally.n_cases:,} cases, {len(tally.failures)} failed", file=sys.stderr)
    if output is not None:
        with atomic_file(output, overwrite=True) as file:
            file.write((json.dumps(figures, indent=1) + "\n").encode())
    print(json.dumps(figures))
    raise typer.Exit(1 if n_failed else 0)


def _run(part: str, seed: int, seconds: float, jobs: int) -> Tally:
    if part == "load":
        return _run_load(seconds)
    if part == "truth":
        from .checks import check_case as check
    elif part == "faults":
        from .faults import check_kill as check
    else:
        from .hostile import check_file as check
    return run_cases(check, seed, seconds, jobs=jobs)


def _run_load(seconds: float) -> Tally:
    from .load import CHECKS

    tally = Tally()
    for name, check in CHECKS.items():
        try:
            found = check(seconds / len(CHECKS))
            tally.counts[f"{name}: {', '.join(f'{k} {v}' for k, v in found.items())}"] += 1
        except Exception as error:
            tally.counts["failed"] += 1
            script = f"from campaign.load import CHECKS\n\nCHECKS[{name!r}](60)\n"
            message = f"{name}: {type(error).__name__}: {error}"
            tally.failures.append(
                {"error": message, "details": traceback.format_exc(), "script": script}
            )
    return tally


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def main() -> None:
    run_app(app, "campaign")


if __name__ == "__main__":
    main()
