"""What may go wrong with data. Each is one sentence a user can act on."""


class DataError(ValueError):
    """A file is damaged, malformed, or does not fit the others."""


class DataUnavailableError(DataError):
    """A dataset could not be had from any of the places it may come from."""
