"""The command line: gpcanet demo, embed, classify, regress, explore, train, datasets."""

from __future__ import annotations

import sys

from .signals import (
    INTERRUPTED,
    INTERRUPTED_MESSAGE,
    catch_signals,
    ignore_signals,
    restore_signals,
    was_interrupted,
)

__all__ = ["main"]


def main() -> None:
    """Run the command line; a signal while modules are imported ends it as any other would."""
    catch_signals()
    try:
        from .app import run
    except BaseException:
        if not was_interrupted():
            raise
        ignore_signals()
        print(f"gpcanet: {INTERRUPTED_MESSAGE}", file=sys.stderr)
        restore_signals()
        sys.exit(INTERRUPTED)
    run()
