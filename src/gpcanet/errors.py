"""Errors that the user can act on, apart from errors in this package.

The command line prints these in one line and exits with 2. Any other exception is an internal
error: it shows its traceback and exits with 1.
"""


class UserError(Exception):
    """Base class of all errors caused by what the user passed in."""


class InputError(UserError, ValueError):
    """An argument has a value that cannot be used."""


class InputTypeError(UserError, TypeError):
    """An argument has a type that cannot be used."""


class DataError(InputError):
    """A file is damaged, malformed, or does not match the other files."""


class DataUnavailableError(DataError):
    """A dataset could not be obtained from any of its sources."""


class TrainingDivergedError(InputError):
    """The loss, a weight or an output is not finite any more."""


class DataWarning(UserWarning):
    """Files were read in a way that is probably not what the user meant."""
