"""Results in h5ad files: a copy of the input file, or a new one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..utils.atomic import atomic_file
from .paths import suffix_of

#: Key of further results in uns.
UNS_KEY = "gpcanet"

#: Key of embeddings in obsm. Loadings and parameters of another run have it in varm and uns.
EMBEDDING_KEY = "X_gpca"


def write_h5ad(
    path: str | os.PathLike[str],
    ids: np.ndarray,
    *,
    obs: Mapping[str, np.ndarray] | None = None,
    obsm: Mapping[str, np.ndarray] | None = None,
    uns: Mapping[str, np.ndarray] | None = None,
    source: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write columns of obs, arrays of obsm, and ``uns["gpcanet"]``.

    If ``source`` is an h5ad file, everything else is copied from it, without reading it into
    memory. Otherwise the new file has the results alone, with the ids as names of observations.
    An embedding is written without the loadings and parameters of an earlier one.
    """
    import anndata
    import h5py

    is_copy = source is not None and suffix_of(source) == ".h5ad"
    with atomic_file(path, overwrite=overwrite) as file:
        if is_copy:
            assert source is not None
            with open(source, "rb") as original:
                shutil.copyfileobj(original, file)
        else:
            _write_new(anndata, Path(file.name), ids)
        file.flush()
        with h5py.File(file.name, "r+") as content:
            table = anndata.io.read_elem(content["obs"])
            if len(table) != len(ids):
                raise DataError(f"{source} has changed while it was used; run the command again")
            for name, values in (obs or {}).items():
                table[name] = _storable(values)
                if table[name].dtype == object:
                    table[name] = table[name].astype("category")
            if obs:
                anndata.io.write_elem(content, "obs", table)
            for name, array in (obsm or {}).items():
                group = content.require_group("obsm")
                anndata.io.write_elem(group, name, np.ascontiguousarray(array))
            if EMBEDDING_KEY in (obsm or {}):
                for slot in ("varm", "uns"):
                    if EMBEDDING_KEY in content.get(slot, {}):
                        del content[slot][EMBEDDING_KEY]
            if uns:
                stored = {name: _storable(array) for name, array in uns.items()}
                anndata.io.write_elem(content.require_group("uns"), UNS_KEY, stored)


def _write_new(anndata: Any, path: Path, ids: np.ndarray) -> None:
    import pandas as pd

    names = [str(name) for name in ids.tolist()]
    wrong = next((name for name in names if not _is_storable(name)), None)
    if wrong is not None:
        raise DataError(
            f"node id {wrong!r} has a character that h5ad files cannot store; rename it"
        )
    index = pd.Index(names, dtype=object)
    anndata.AnnData(obs=pd.DataFrame(index=index)).write_h5ad(path)


def _is_storable(name: str) -> bool:
    """Whether text has neither NUL nor a lone surrogate."""
    return "\0" not in name and name.encode(errors="ignore").decode() == name


def _storable(values: np.ndarray) -> np.ndarray:
    """Text as objects, which h5ad stores as strings of any length."""
    return values.astype(object) if values.dtype.kind == "U" else values
