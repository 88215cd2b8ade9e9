"""A cluster of two worker processes, shared by the tests of a file."""

import pytest

from gpcanet.distributed import local_cluster


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as client:
        yield client
