"""Fixtures that all tests share."""

from collections.abc import Iterator

import pytest

from ascend_rt.testing import RankPool


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankPool]:
    """The warm pool: `ranks.run(4, function, *arguments)` runs `function(comm, *arguments)` on 4 ranks."""
    with RankPool() as pool:
        yield pool
