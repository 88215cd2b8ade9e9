"""The embedding that workers have written: one file per chunk of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class EmbeddingParts:
    """A folder of files with consecutive rows of Z: Parquet with node ids, or npy.

    Attributes
    ----------
    folder : Path
    shape : tuple of int
        Rows and columns of Z.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/part-0.npy", np.ones((2, 1)))
    ...     EmbeddingParts(Path(folder), (2, 1)).read()
    array([[1.],
           [1.]])
    """

    folder: Path
    shape: tuple[int, int]

    @property
    def files(self) -> list[Path]:
        """The files, in the order of the rows."""
        return sorted(self.folder.glob("part-*"))

    def __iter__(self) -> Iterator[np.ndarray]:
        """The rows of one file after the other."""
        for path in self.files:
            if path.suffix == ".npy":
                yield np.load(path, mmap_mode="r")
            else:
                table = pq.read_table(path)
                yield np.column_stack([column.to_numpy() for column in table.columns[1:]])

    def read(self) -> np.ndarray:
        """All rows in memory."""
        return np.concatenate(list(self))

    def ids(self) -> np.ndarray:
        """The node ids of Parquet files."""
        columns = [pq.read_table(path).column(0) for path in self.files]
        return np.asarray(pa.concat_arrays([c for x in columns for c in x.chunks]))
