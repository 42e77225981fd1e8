"""A world of one in this process, whose device acl's functions use."""

from collections.abc import Iterator

import pytest

from ascend_rt import acl
from ascend_rt.acl.device import leave


@pytest.fixture(scope="module")
def world() -> Iterator[None]:
    yield
    leave()


@pytest.fixture
def device(world: None) -> Iterator[int]:
    """Device 0, set for this thread; released afterwards with all that the test has made on it."""
    assert acl.rt.set_device(0) == 0
    yield 0
    while acl.rt.get_device()[1] == 0 and acl.rt.reset_device(0) == 0:
        pass


@pytest.fixture
def stream(device: int) -> int:
    handle, ret = acl.rt.create_stream()
    assert ret == 0 and handle
    return handle
