"""Compiled functions whose cache on disk notices every change of this package."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba as nb
from numba.core.caching import FunctionCache


@cache
def source_digest() -> str:
    """A digest of all files of this package, which are all that compiled code is made from."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class PackageCache(FunctionCache):
    """numba's cache looks at the file of a function, not at constants and functions it imports.

    A stale constant could make a kernel write beyond the end of an array.
    """

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), source_digest())


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` with these options and a cache on disk."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = nb.njit(**options)(function)
        dispatcher._cache = PackageCache(function)
        return dispatcher

    return decorate
