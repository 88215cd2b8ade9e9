"""How many inputs a property is tested on: a few in every run, thousands by ``make slow``."""

import os

import pytest
from hypothesis import settings


def examples(n, **others):
    """Decorator of a property test: n examples, or as many as GPCANET_EXAMPLES says."""
    chosen = int(os.environ.get("GPCANET_EXAMPLES") or n)

    def decorate(test):
        return pytest.mark.property(settings(deadline=None, max_examples=chosen, **others)(test))

    return decorate
