"""Parts of messages that come from elsewhere: other libraries, and files of the user."""

from __future__ import annotations

#: Characters of another library's message, or of a value, that are shown.
LONGEST_REASON = 200


def first_line(error: BaseException) -> str:
    """The first line of a message, shortened: some contain the bytes of a damaged file."""
    return _shortened(str(error).strip().partition("\n")[0])


def quoted(value: object) -> str:
    """The representation of a value, shortened: a missing quote can make a cell very long."""
    return _shortened(repr(value))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
