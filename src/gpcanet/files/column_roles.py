"""Roles of columns: node ids, labels, split, features.

All formats use these rules, so that files are joined in the same way whatever their format, and
labels never become features.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import DataError, InputError
from .tables import Table

#: Default names of columns, in upper or lower case.
ID_NAMES = ("id", "node_id", "node_ids", "node", "ids")
LABEL_NAMES = ("label", "labels")
SPLIT_NAMES = ("split",)

#: Further names of node ids in npz files, which have no column that could mean something else.
ID_ARRAY_NAMES = ("index", "nodes")

#: Other names that probably mean ids, such as paper_id or userId.
ID_LIKE = re.compile(r"(^|[ _.-])(id|Id|ID)$|[a-z](Id|ID)$|^(index|Unnamed: 0)$")


@dataclass(frozen=True)
class ColumnRoles:
    """Columns that the user has named."""

    id: str | None = None
    label: str | None = None
    split: str | None = None
    ignore: tuple[str, ...] = ()
    id_is_optional: bool = False  # the named id column may be in another file
    label_is_number: bool = False  # labels are numbers to predict, not classes
    one_hot: Mapping[str, Sequence[str] | None] = field(default_factory=dict)  # and categories

    def __post_init__(self) -> None:
        check_distinct_columns(
            {"id_column": self.id, "label_column": self.label, "split_column": self.split}
        )

    def is_text(self, name: str) -> bool:
        """Whether a CSV column of this name is read as text: ids, labels, splits, categories."""
        defaults = (*ID_NAMES, *LABEL_NAMES, *SPLIT_NAMES, "")
        named = [n for n in (self.id, self.label, self.split, *self.one_hot) if n is not None]
        return name in (*named, *map(str.strip, named)) or name.lower() in defaults

    def for_table(self, table: Table) -> ColumnRoles:
        """The roles without white space around names if the table is text, which has none there."""
        if not table.is_text:
            return self
        id_, label, split = (
            None if name is None else name.strip() for name in (self.id, self.label, self.split)
        )
        ignore = tuple(name.strip() for name in self.ignore)
        one_hot = {name.strip(): known for name, known in self.one_hot.items()}
        return replace(self, id=id_, label=label, split=split, ignore=ignore, one_hot=one_hot)

    def find_id(self, table: Table) -> str | None:
        """The column of node ids; None if there is none, and node i is row i."""
        if self.id is not None and (self.id in table.names or not self.id_is_optional):
            table.column(self.id)
            return self.id
        index = table.index_names
        unnamed = table.unnamed_index
        called = [name for name in _columns_called(table, ID_NAMES) if name != unnamed]
        found = called or (index if len(index) == 1 else [])
        similar = [n for n in table.names if ID_LIKE.search(n) and n not in (*self.ignore, unnamed)]
        if found == [unnamed]:
            found = [*found, *similar]  # pandas writes row numbers next to a column of ids
        if len(found) == 1:
            return found[0]
        if self.id is not None:
            table.column(self.id)  # raises: neither this column nor a default one exists
        if found:
            raise DataError(
                f"{table.path} has several columns that may be the node id, {_listed(found)}; name "
                f"one of them as the id column"
            )
        if similar:
            raise DataError(
                f"{table.path}: column {similar[0]!r} may be the node id; name it as the id "
                f"column, or ignore it to use node i for row i"
            )
        if table.has_lost_index:
            raise DataError(
                f"{table.path}: the range index in its pandas metadata has another number of rows; "
                f"write the node ids as a column"
            )
        return None

    def find_label(self, table: Table, *, required: bool) -> str | None:
        """The column of labels. If required, it may also be the only remaining column."""
        if self.label is not None and (required or self.label in table.names):
            table.column(self.label)
            return self.label
        found = [name for name in _columns_called(table, LABEL_NAMES) if name not in self.ignore]
        if len(found) == 1:
            return found[0]
        if not found and not required:
            return None
        others = {self.find_id(table), self.find_split(table), *table.index_names}
        candidates = found or [name for name in table.names if name not in others]
        if not candidates:
            raise DataError(f"{table.path} has no column of labels; add one")
        if len(candidates) > 1:
            raise _ambiguous(table, "label", candidates)
        return candidates[0]

    def find_split(self, table: Table) -> str | None:
        """The column with the part of the split of every node; None if there is none."""
        if self.split in table.names:
            return self.split
        found = [name for name in _columns_called(table, SPLIT_NAMES) if name not in self.ignore]
        if len(found) > 1:
            raise _ambiguous(table, "split", found)
        return found[0] if found else None

    def find_features(self, table: Table, *, label_of_other_file: str | None) -> list[str]:
        """The remaining columns; a column with the name of a label is never a feature."""
        required = [name for name, known in self.one_hot.items() if known is None]
        for name in (*self.ignore, *required):
            table.column(name)  # raises if it does not exist
        excluded = {self.find_id(table), self.label, self.split, *self.ignore, *table.index_names}
        excluded |= {*_columns_called(table, (*LABEL_NAMES, *SPLIT_NAMES))}
        if label_of_other_file is not None:
            excluded |= set(_columns_called(table, (label_of_other_file.lower(),)))
        for name in required:
            if name in excluded:
                raise DataError(
                    f"{table.path}: column {name!r} is not a feature and cannot be encoded; leave "
                    f"it out"
                )
        return [name for name in table.names if name not in excluded]

    def find_reserved(self, table: Table, *, label: str | None) -> list[str]:
        """Columns with the name of a label or split that are neither, and no features either."""
        used = {self.find_id(table), label, self.find_split(table), *table.index_names}
        reserved = _columns_called(table, (*LABEL_NAMES, *SPLIT_NAMES))
        return [name for name in reserved if name not in used and name not in self.ignore]


def check_distinct_columns(columns: Mapping[str, str | None]) -> None:
    """Raise if two parameters name the same column."""
    parameters: dict[str, str] = {}
    for parameter, name in columns.items():
        if name is not None and parameters.setdefault(name, parameter) != parameter:
            raise InputError(
                f"{parameters[name]} and {parameter} are both {name!r}; name two different columns"
            )


def _columns_called(table: Table, names: tuple[str, ...]) -> list[str]:
    return [name for name in table.names if name.lower() in names]


def _ambiguous(table: Table, role: str, names: list[str]) -> DataError:
    return DataError(
        f"{table.path} has several columns that may be the {role}; name one of {_listed(names)}"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
