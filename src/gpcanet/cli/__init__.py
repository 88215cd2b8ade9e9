"""The command line: gpcanet demo, embed, classify, train, reproduce, report, bench, datasets."""

from .app import app, main

__all__ = ["app", "main"]
