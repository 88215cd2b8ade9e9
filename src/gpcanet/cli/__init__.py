"""The command line: gpcanet demo | embed | classify | datasets."""

from .app import app, main

__all__ = ["app", "main"]
