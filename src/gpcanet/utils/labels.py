"""Values that mark a node as unlabelled, for arrays, tables and files; the parts of a split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

#: Parts of a split, in the order in which they are reported.
SPLIT = ("train", "validation", "test")

UNLABELED = -1

#: Text that is not a class: an empty cell, or -1 in a column of text.
UNLABELED_TEXT = frozenset({"", "-1", "-1.0"})

#: Words that pandas, R and Excel write for a missing value. One of them may also be a class, such
#: as NA for North America, so they are reported.
MISSING_WORDS = frozenset(
    {"NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "null", "NULL", "None"}
)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA has no truth value
        return True


def is_unlabeled(label: Any) -> bool:
    """Whether a label is missing, -1, or text that stands for either.

    Examples
    --------
    >>> [is_unlabeled(label) for label in (None, -1, "", "NA", 0, "a")]
    [True, True, True, True, False, False]
    """
    if isinstance(label, str):
        return label in UNLABELED_TEXT or label in MISSING_WORDS
    return is_missing(label) or label == UNLABELED


def labeled_mask(labels: np.ndarray) -> np.ndarray:
    """Boolean mask of the labelled entries of an array."""
    if labels.dtype.kind in "iu":
        return labels != UNLABELED
    if labels.dtype.kind == "f":
        return ~(np.isnan(labels) | (labels == UNLABELED))
    if labels.dtype.kind == "b":
        return np.ones(len(labels), bool)
    return np.fromiter((not is_unlabeled(label) for label in labels.tolist()), bool, len(labels))


def missing_words_note(labels: Iterable[Any]) -> str | None:
    """A sentence about words such as NA that count as missing labels; None if there are none."""
    found = [label for label in labels if isinstance(label, str) and label in MISSING_WORDS]
    if not found:
        return None
    words = ", ".join(map(repr, sorted(set(found))))
    return (
        f"{words} ({len(found)} of the labels) means unlabelled; rename it if it is a class, or "
        f"leave these labels empty"
    )
