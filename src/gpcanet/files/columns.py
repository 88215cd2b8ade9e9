"""Which column of a file is what: node ids, labels, the split; all others are features.

One place decides this for every format, so that no file joins by another rule than the next, and
no label becomes a feature.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import DataError, InputError
from .tables import Table

#: What a column is called unless told otherwise, in letters of either case.
ID_NAMES = ("id", "node_id", "node_ids", "node", "ids")
LABEL_NAMES = ("label", "labels")
SPLIT_NAMES = ("split",)

#: A name that may well be meant for ids, such as paper_id or userId.
LIKE_AN_ID = re.compile(r"(^|[ _.-])(id|Id|ID)$|[a-z](Id|ID)$|^(index|Unnamed: 0)$")


@dataclass(frozen=True)
class Columns:
    """What the user has said of columns."""

    id: str | None = None
    label: str | None = None
    split: str | None = None
    ignore: tuple[str, ...] = ()
    id_may_lack: bool = False  # the named id is that of another file; here the usual counts

    def __post_init__(self) -> None:
        check_distinct(id_column=self.id, label_column=self.label, split_column=self.split)

    def is_kept_as_text(self, name: str) -> bool:
        """Whether a CSV is to leave a column of this name as it stands: ids, labels, parts."""
        usual = (*ID_NAMES, *LABEL_NAMES, *SPLIT_NAMES, "")
        return name in (self.id, self.label, self.split) or name.lower() in usual

    def find_id(self, table: Table) -> str | None:
        """The column of node ids; None where there is none, and node i is row i."""
        if self.id is not None and (self.id in table.names or not self.id_may_lack):
            table.column(self.id)
            return self.id
        index = table.index_names
        usual = _called(table, ID_NAMES) or (index if len(index) == 1 else [])
        if len(usual) == 1:
            return usual[0]
        if self.id is not None:
            table.column(self.id)  # raises: neither that one nor a usual one is there
        if usual:
            raise DataError(f"{table.path}: which column is the node id, {_listed(usual)}? Name it")
        doubtful = [n for n in table.names if LIKE_AN_ID.search(n) and n not in self.ignore]
        if doubtful:
            raise DataError(
                f"{table.path}: is {doubtful[0]!r} the node id? Name it as such, or ignore it, "
                f"and then node i is row i"
            )
        if table.has_lost_index:
            raise DataError(
                f"{table.path}: its index of pandas is a range for another number of rows; write "
                f"the node ids as a column"
            )
        return None

    def find_label(self, table: Table, *, needed: bool) -> str | None:
        """The column of labels. In a file of labels the only column left is it, too."""
        if self.label is not None and (needed or self.label in table.names):
            table.column(self.label)
            return self.label
        usual = [name for name in _called(table, LABEL_NAMES) if name not in self.ignore]
        if len(usual) == 1:
            return usual[0]
        if not usual and not needed:
            return None
        apart = {self.find_id(table), self.find_split(table), *table.index_names}
        others = usual or [name for name in table.names if name not in apart]
        if not others:
            raise DataError(f"{table.path} has no column of labels beside the ids; add one")
        if len(others) > 1:
            raise DataError(
                f"{table.path}: which column is the label? Name one of {_listed(others)}"
            )
        return others[0]

    def find_split(self, table: Table) -> str | None:
        if self.split in table.names:
            return self.split
        usual = [name for name in _called(table, SPLIT_NAMES) if name not in self.ignore]
        if len(usual) > 1:
            raise DataError(
                f"{table.path}: which column is the split? Name one of {_listed(usual)}"
            )
        return usual[0] if usual else None

    def features_of(self, table: Table, *, label_elsewhere: str | None) -> list[str]:
        """The remaining columns. A column named like a label is never a feature."""
        for name in self.ignore:
            table.column(name)  # raises where there is none
        never = {self.find_id(table), self.label, self.split, *self.ignore, *table.index_names}
        never |= {*_called(table, LABEL_NAMES), *_called(table, SPLIT_NAMES)}
        if label_elsewhere is not None:
            never |= set(_called(table, (label_elsewhere.lower(),)))
        return [name for name in table.names if name not in never]


def check_distinct(**columns: str | None) -> None:
    """Raise if one column is named for two purposes."""
    purposes: dict[str, str] = {}
    for purpose, name in columns.items():
        if name is not None and purposes.setdefault(name, purpose) != purpose:
            raise InputError(
                f"{purposes[name]} and {purpose} are both {name!r}; name two different columns"
            )


def _called(table: Table, names: tuple[str, ...]) -> list[str]:
    return [name for name in table.names if name.lower() in names]


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
