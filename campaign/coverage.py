"""Damaged files guided by coverage: python -m campaign.coverage "features csv" -max_total_time=60.

Needs atheris, which is not part of the set-up: pip install atheris. Arguments after the name of the
format are those of libFuzzer. A failure is saved as crash-*, and repeated by giving its name.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gpcanet"]):
    from .formats import formats
    from .hostile import outcome


def main() -> None:
    names = ", ".join(name for name, one in formats().items() if not one.may_crash)
    if len(sys.argv) < 2 or sys.argv[1] not in names.split(", "):
        sys.exit(f"campaign.coverage: give one of {names}")
    program, name, *options = sys.argv
    one = formats()[name]
    with tempfile.TemporaryDirectory() as corpus:
        Path(corpus, "valid").write_bytes(one.content)
        # Without a limit, libFuzzer counts the memory of all libraries.
        options += ["-rss_limit_mb=0", f"-max_len={2 * len(one.content)}"]
        if not any(Path(option).is_file() for option in options):
            options.append(corpus)
        atheris.Setup([program, *options], lambda content: outcome(one, content))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
