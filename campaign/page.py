"""The figures of the committed campaigns as a table of docs/testing.md: python -m campaign.page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.tables import markdown_table

#: Lines of the page between which the table stands.
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

#: What a case of each part is.
CASES = {
    "truth": "fits, transforms and graphs against dense formulas",
    "faults": "commands killed, interrupted or without room on disk",
    "files": "damaged files",
    "load": "checks of memory, threads, processes and busy cores",
}


def write_figures(page: Path, results: list[Path]) -> None:
    """Replace the table of the page by that of these campaigns."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{figures(results)}\n{END}{after}", encoding="utf-8")


def figures(results: list[Path]) -> str:
    """A table of all campaigns, with a row per part, and one of the last campaign."""
    found: list[dict[str, Any]] = [json.loads(path.read_bytes()) for path in results]
    last = found[-1]
    dates = " to ".join(dict.fromkeys([found[0]["date"], last["date"]]))
    stated = f"{last['date']}, commit {last['commit']}, seed {last['seed']}"
    return "\n\n".join(
        [
            f"All campaigns ({dates}, {len(found)} runs with different seeds):",
            _table(found),
            f"The last one ({stated}):",
            _table([last]),
        ]
    )


def _table(found: list[dict[str, Any]]) -> str:
    rows = []
    for part, what in CASES.items():
        numbers = [one["parts"][part] for one in found if part in one["parts"]]
        if numbers:
            cases, failed, minutes = (
                sum(n[key] for n in numbers) for key in ("cases", "failed", "minutes")
            )
            if part == "faults":
                counts = [item for n in numbers for item in n["counts"].items()]
                signals = sum(count for name, count in counts if "SIG" in name)
                what = f"{what}; {signals:,} with a signal at a random moment"
            rows.append([part, what, f"{cases:,}", f"{failed}", f"{minutes:.0f}"])
    return markdown_table(["part", "cases", "number", "failed", "minutes"], rows)


if __name__ == "__main__":
    write_figures(Path("docs/testing.md"), sorted(Path("campaign/results").glob("*.json")))
