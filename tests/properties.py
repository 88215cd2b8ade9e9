"""Number of examples of property tests: a few in every run, thousands with ``make slow``."""

import os

import pytest
from hypothesis import settings


def examples(n, **others):
    """Decorator of a property test: n examples, or GPCANET_EXAMPLES of them."""
    chosen = int(os.environ.get("GPCANET_EXAMPLES") or n)

    def decorate(test):
        return pytest.mark.property(settings(deadline=None, max_examples=chosen, **others)(test))

    return decorate
