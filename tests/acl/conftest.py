"""A world of one in this process, whose devices acl's functions use."""

import threading
from collections.abc import Callable, Iterator

import pytest

import ascend_rt as rt
from ascend_rt import acl
from ascend_rt.acl.device import find_stream, leave

DEVICES = 3


@pytest.fixture(scope="module")
def world() -> Iterator[None]:
    _leave()
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("ASCEND_RT_DEVICES", str(DEVICES))
        yield
        _leave()


def _leave() -> None:
    rt.finalize()  # if arrays were made
    leave()


@pytest.fixture
def device(world: None) -> Iterator[int]:
    """Device 0, set for this thread; all devices are released afterwards with all that the test has made on them."""
    assert acl.rt.set_device(0) == 0
    yield 0
    for index in range(DEVICES):
        acl.rt.reset_device_force(index)


@pytest.fixture
def stream(device: int) -> int:
    handle, ret = acl.rt.create_stream()
    assert ret == 0 and handle
    return handle


@pytest.fixture
def hold() -> Iterator[Callable[[int], Callable[[], None]]]:
    """hold(stream): queues a task that lasts until what it returns is called, or the test is over."""
    gates = []

    def hold_stream(stream: int) -> Callable[[], None]:
        gate = threading.Event()
        gates.append(gate)
        find_stream(stream).launch(gate.wait)
        return gate.set

    yield hold_stream
    for gate in gates:
        gate.set()
