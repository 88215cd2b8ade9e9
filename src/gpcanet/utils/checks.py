"""Checks of parameters and arrays: numbers in a range, one of several choices."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError, ParameterError


def as_array(values: Any, name: str) -> np.ndarray:
    """The values as an array; raise if they are nested lists of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            f"{name} has rows of different lengths; give all rows the same length"
        ) from None


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, *, advice: str, integer: bool = False
) -> None:
    """Raise unless low <= value <= high."""
    kind = Integral if integer else Real
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = "an integer" if integer else "a number"
        raise InputTypeError(f"{name}={value!r} must be {wanted}; {advice}")
    if not low <= float(value) <= high or math.isinf(float(value)):
        limits = f"at least {low:g}"
        if high < math.inf:
            limits = f"in [{low:g}, {high:g}]"
        elif not integer:
            limits = f"finite and {limits}"
        raise ParameterError(name, str(value), f"must be {limits}; {advice}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        reason = f"must be one of {', '.join(map(repr, choices))}"
        raise ParameterError(name, repr(value), reason)
