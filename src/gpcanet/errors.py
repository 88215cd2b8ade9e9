"""Errors that the user can correct.

The command line prints them, and errors of the operating system, in one line and exits with 2. Any
other exception is an internal error: it shows its traceback and exits with 1.
"""

from pathlib import Path


class UserError(Exception):
    """Base class of all errors caused by what the user passed in."""


class InputError(UserError, ValueError):
    """An argument has a value that cannot be used."""


class InputTypeError(UserError, TypeError):
    """An argument has a type that cannot be used."""


class ParameterError(InputError):
    """A parameter has a value that cannot be used.

    The parts of the message are attributes, so that the command line can name its own option.

    Examples
    --------
    >>> raise ParameterError("beta", "1.4", "must be in [0, 1]")
    Traceback (most recent call last):
    gpcanet.errors.ParameterError: beta=1.4 must be in [0, 1]
    """

    def __init__(self, parameter: str, value: str, reason: str) -> None:
        super().__init__(parameter, value, reason)  # as args, so that it can be pickled
        self.parameter, self.value, self.reason = parameter, value, reason

    def __str__(self) -> str:
        return f"{self.parameter}={self.value} {self.reason}"


class DataError(InputError):
    """A file is damaged, malformed, or does not match the other files.

    Examples
    --------
    >>> issubclass(DataError, ValueError)
    True
    """


class UnknownNodeError(DataError):
    """A file contains a node that the features do not contain."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem, self.hint = problem, hint

    def __str__(self) -> str:
        return f"{self.problem}; add it there or pass drop_unknown=True{self.hint}"


class MissingFeatureError(DataError):
    """A feature is missing: an empty cell or NaN."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.problem}; fill it in, or pass keep_missing=True and use gpcanet.GraphImputer"


class DataUnavailableError(DataError):
    """A dataset could not be obtained from any of its sources.

    Examples
    --------
    >>> from gpcanet.datasets import load
    >>> try:
    ...     data = load("cora", offline=True)
    ... except DataUnavailableError:  # neither in the cache nor in GPCANET_DATA_DIR
    ...     data = load("digits")
    >>> data.name in ("cora", "digits")
    True
    """


class OutputExistsError(UserError, FileExistsError):
    """An output exists, and replacing it was not requested, or is not supported."""

    def __init__(self, path: Path, is_replaceable: bool = True) -> None:
        super().__init__(path, is_replaceable)
        self.path, self.is_replaceable = path, is_replaceable

    def __str__(self) -> str:
        advice = " or pass overwrite=True" if self.is_replaceable else ""
        return f"{self.path} exists; choose another name{advice}"


class TrainingDivergedError(InputError):
    """The loss, a weight or an output is no longer finite.

    Examples
    --------
    >>> raise TrainingDivergedError("the loss is nan in epoch 3; use a smaller learning rate")
    Traceback (most recent call last):
    gpcanet.errors.TrainingDivergedError: the loss is nan in epoch 3; use a smaller learning rate
    """


class DataWarning(UserWarning):
    """Files were read in a way that is probably not intended."""
