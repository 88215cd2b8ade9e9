"""The command line: gpcanet demo | embed | classify | bench | datasets."""

from .app import app, main

__all__ = ["app", "main"]
