"""The command line: gpcanet demo, embed, classify, regress, explore, train, datasets."""

from .app import app, main

__all__ = ["app", "main"]
