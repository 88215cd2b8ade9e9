"""Compilation of kernels by numba, with a cache on disk that notices every change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba as nb
from numba.core.caching import FunctionCache
from numba.core.compiler import Compiler


@cache
def source_digest() -> str:
    """Digest of all files of this package, on which the compiled code depends."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class PackageCache(FunctionCache):
    """Cache of compiled functions with the digest of the package in its key.

    numba checks only the file of the function itself. A changed constant of another file could
    otherwise make a cached kernel write beyond the end of an array.
    """

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), source_digest())

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled kernel, unless the disk is full: it is compiled again next time."""
        with suppress(OSError):
            super().save_overload(sig, data)


class NoAliasCompiler(Compiler):
    """Compiler for kernels whose output shares no memory with their other arguments.

    Without it LLVM checks before each inner loop whether arrays overlap.
    """

    def define_pipelines(self) -> Any:
        self.state.flags.noalias = True
        return super().define_pipelines()


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: compile with ``numba.njit`` when first called; the GIL is released.

    Kernels are not compiled with ``parallel=True``: ``parallel_rows`` runs them in threads, so that
    they compile faster and work in forked processes.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = nb.njit(nogil=True, pipeline_class=NoAliasCompiler, **options)(function)
        dispatcher._cache = PackageCache(function)
        return dispatcher

    return decorate
