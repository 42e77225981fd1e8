"""An execution waits for an event outside of it, and what is behind the wait is updated meanwhile: CANN's own order."""

from collections.abc import Iterator

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, ge, hccl
from ascend_rt.acl import device as local
from ascend_rt.ge.mdl.running_instances import find
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

FP32, SUM = hccl.HcclDataType.HCCL_DATA_TYPE_FP32, hccl.HcclReduceOp.HCCL_REDUCE_SUM
KIND = acl.ACL_MEMCPY_DEFAULT
Float = np.ndarray[tuple[int], np.dtype[np.float64]]


@pytest.fixture
def stream() -> Iterator[int]:
    acl.rt.set_device(0)
    made, _ = acl.rt.create_stream()
    yield made
    ge.abandon(local.find_stream(made))
    acl.rt.destroy_stream_force(made)


@pytest.fixture
def beside(stream: int) -> Iterator[int]:
    """Where updates are queued."""
    made, _ = acl.rt.create_stream()
    yield made
    acl.rt.destroy_stream_force(made)


@pytest.fixture
def event(stream: int) -> int:
    made, ret = acl.rt.create_event_ex_with_flag(acl.ACL_EVENT_EXTERNAL)
    assert ret == 0
    return made


def add(x: Float, y: Float, alpha: float, out: Float) -> None:
    out[:] = x + alpha * y


class Captured:
    """total = x + 1.5 y; then, behind a wait for the event, out = total + 2 y as a task group."""

    def __init__(self, stream: int, event: int, *, resets: bool = True) -> None:
        self.x, self.y, self.total, self.out = np.arange(3.0), np.ones(3), np.zeros(3), np.zeros(3)
        self.stream, self.event = stream, event
        assert acl.mdl.ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) == 0
        local.find_stream(stream).launch(add, self.x, self.y, 1.5, self.total)
        assert acl.rt.stream_wait_event(stream, event) == 0
        assert not resets or acl.rt.reset_event(event, stream) == 0
        assert acl.mdl.ri_capture_task_grp_begin(stream) == 0
        self.queue(stream, 2.0)
        self.group, ret = acl.mdl.ri_capture_task_grp_end(stream)
        assert ret == 0
        self.model, ret = acl.mdl.ri_capture_end(stream)
        assert ret == 0, acl.get_recent_err_msg()

    def queue(self, stream: int, alpha: float) -> None:
        local.find_stream(stream).launch(add, self.total, self.y, alpha, self.out)

    def update(self, beside: int, alpha: float) -> None:
        assert acl.mdl.ri_capture_task_update_begin(beside, self.group) == 0
        self.queue(beside, alpha)
        assert acl.mdl.ri_capture_task_update_end(beside) == 0, acl.get_recent_err_msg()

    def execute(self) -> None:
        assert acl.mdl.ri_execute_async(self.model, self.stream) == 0

    def record(self, beside: int) -> None:
        assert acl.rt.record_event(self.event, beside) == 0

    def result(self) -> list[float]:
        assert acl.rt.synchronize_stream(self.stream) == 0, acl.get_recent_err_msg()
        return (self.out - self.x).tolist()


def test_execute_then_update_then_record(stream: int, beside: int, event: int) -> None:
    """As CANN's sample of a task update does it: the execution that waits already has the new arguments."""
    captured = Captured(stream, event)
    found = []
    for alpha in (None, 4.0, None, 7.0):
        captured.execute()
        if alpha is not None:
            captured.update(beside, alpha)
        assert captured.out.tolist() == (found[-1] + captured.x if found else np.zeros(3)).tolist()
        captured.record(beside)
        assert acl.rt.synchronize_stream(beside) == 0
        found.append(np.array(captured.result()))
    assert [set(each.tolist()) for each in found] == [{3.5}, {5.5}, {5.5}, {8.5}]


def test_each_execution_has_what_was_updated_before_its_recording(stream: int, beside: int, event: int) -> None:
    captured = Captured(stream, event)
    seen: list[float] = []
    for _ in range(3):
        captured.execute()
        local.find_stream(stream).launch(lambda: seen.append(captured.out[0]))
    for alpha in (10.0, 20.0, 30.0):
        captured.update(beside, alpha)
        captured.record(beside)
    captured.result()
    assert seen == [11.5, 21.5, 31.5]


def test_a_recording_lets_the_next_execution_pass(stream: int, beside: int, event: int) -> None:
    """Once, however many there are; and an update behind it counts for an execution that was not queued yet."""
    captured = Captured(stream, event)
    for _ in range(2):
        captured.record(beside)
    assert acl.rt.synchronize_stream(beside) == 0
    captured.update(beside, 5.0)
    captured.execute()
    assert captured.result() == [6.5] * 3
    captured.update(beside, 6.0)
    captured.execute()
    assert acl.rt.synchronize_stream_with_timeout(stream, 20) == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
    captured.record(beside)
    assert captured.result() == [7.5] * 3


def test_an_event_that_is_not_reset_lets_all_pass(stream: int, beside: int, event: int) -> None:
    captured = Captured(stream, event, resets=False)
    captured.execute()
    captured.update(beside, 5.0)
    captured.record(beside)
    assert captured.result() == [6.5] * 3
    captured.update(beside, 6.0)
    captured.execute()
    assert captured.result() == [7.5] * 3


def test_an_execution_that_waits_is_aborted(stream: int, beside: int, event: int) -> None:
    captured = Captured(stream, event)
    captured.execute()
    assert acl.mdl.ri_abort(captured.model) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_STREAM_ABORT
    captured.execute()
    captured.update(beside, 9.0)
    captured.record(beside)
    assert captured.result() == [10.5] * 3


def test_copies_and_fills_are_updated_too(stream: int, beside: int, event: int) -> None:
    pointer, _ = acl.rt.malloc(64, 0)
    acl.rt.memset(pointer, 64, 0, 64)

    def queue(on: int, value: int, nbytes: int) -> None:
        acl.rt.memset_async(pointer, 64, value, nbytes, on)
        acl.rt.memcpy_async(pointer + 32, 32, pointer, nbytes, KIND, on)

    acl.mdl.ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
    acl.rt.stream_wait_event(stream, event)
    acl.rt.reset_event(event, stream)
    acl.mdl.ri_capture_task_grp_begin(stream)
    queue(stream, 1, 4)
    group, _ = acl.mdl.ri_capture_task_grp_end(stream)
    model, ret = acl.mdl.ri_capture_end(stream)
    assert ret == 0
    acl.mdl.ri_execute_async(model, stream)
    acl.mdl.ri_capture_task_update_begin(beside, group)
    queue(beside, 7, 6)
    assert acl.mdl.ri_capture_task_update_end(beside) == 0
    acl.rt.record_event(event, beside)
    assert acl.rt.synchronize_stream(stream) == 0
    found = np.zeros(64, np.uint8)
    acl.rt.memcpy(acl.util.numpy_to_ptr(found), 64, pointer, 64, KIND)
    assert found.tolist() == ([7] * 6 + [0] * 26) * 2
    acl.rt.free(pointer)


def test_what_ranks_do_together_is_updated_before_the_execution(stream: int, beside: int, event: int) -> None:
    (comm,), ret = hccl.HcclCommInitAll(1, [0])
    assert ret == 0
    x, _ = acl.rt.malloc(64, 0)
    acl.mdl.ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
    acl.rt.stream_wait_event(stream, event)
    acl.rt.reset_event(event, stream)
    acl.mdl.ri_capture_task_grp_begin(stream)
    hccl.HcclAllReduce(x, x, 8, FP32, SUM, comm, stream)
    group, _ = acl.mdl.ri_capture_task_grp_end(stream)
    model, ret = acl.mdl.ri_capture_end(stream)
    assert ret == 0, acl.get_recent_err_msg()
    codes = []
    for waits in (False, True):
        if waits:
            assert acl.mdl.ri_execute_async(model, stream) == 0
        acl.mdl.ri_capture_task_update_begin(beside, group)
        hccl.HcclAllReduce(x, x, 4, FP32, SUM, comm, beside)
        codes.append(acl.mdl.ri_capture_task_update_end(beside))
    assert codes == [0, acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED]
    assert "which is a collective; update what ranks do together" in acl.get_recent_err_msg()
    acl.rt.record_event(event, beside)
    assert acl.rt.synchronize_stream(stream) == 0 and acl.mdl.ri_destroy(model) == 0
    assert hccl.HcclCommDestroy(comm) == 0


def test_a_wait_belongs_to_no_group_no_update_and_no_file(stream: int, beside: int, event: int) -> None:
    captured = Captured(stream, event)
    with pytest.raises(ValueError, match=r"node 1 \(.*\) cannot be written down: Gate\.wait is a method of an object"):
        find(captured.model).to_json()
    assert acl.mdl.ri_capture_task_update_begin(beside, captured.group) == 0
    assert acl.rt.stream_wait_event(beside, event) == acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT
    assert acl.mdl.ri_capture_task_update_end(beside) == acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED
    other, _ = acl.rt.create_stream()
    acl.mdl.ri_capture_begin(other, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
    acl.mdl.ri_capture_task_grp_begin(other)
    assert acl.rt.stream_wait_event(other, event) == acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT
    ge.abandon(local.find_stream(other))
    acl.rt.destroy_stream(other)


def updated_behind_an_all_reduce(comm: rt.Communicator) -> list[float]:
    """The sum over the ranks, times what each execution is told while it waits."""
    acl.rt.set_device(comm.rank)
    (stream, _), (beside, _) = acl.rt.create_stream(), acl.rt.create_stream()
    event, _ = acl.rt.create_event_ex_with_flag(acl.ACL_EVENT_EXTERNAL)
    x, total, out = rt.array(np.full(4, comm.rank + 1.0)), rt.zeros(4, "float64"), rt.zeros(4, "float64")
    acl.mdl.ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
    comm.all_reduce(x, total, stream=local.find_stream(stream))
    acl.rt.stream_wait_event(stream, event)
    acl.rt.reset_event(event, stream)
    acl.mdl.ri_capture_task_grp_begin(stream)
    local.find_stream(stream).launch(np.multiply, total, 1.0, out=out)
    group, _ = acl.mdl.ri_capture_task_grp_end(stream)
    model, ret = acl.mdl.ri_capture_end(stream)
    assert ret == 0, acl.get_recent_err_msg()
    found = []
    for factor in (10.0, 100.0):
        assert acl.mdl.ri_execute_async(model, stream) == 0
        acl.mdl.ri_capture_task_update_begin(beside, group)
        local.find_stream(beside).launch(np.multiply, total, factor * (comm.rank + 1), out=out)
        assert acl.mdl.ri_capture_task_update_end(beside) == 0, acl.get_recent_err_msg()
        acl.rt.record_event(event, beside)
        assert acl.rt.synchronize_stream(stream) == 0, acl.get_recent_err_msg()
        found.append(out[3].item())
    acl.mdl.ri_destroy(model)
    return found


def test_ranks_update_behind_an_all_reduce_that_runs(ranks: RankPool) -> None:
    assert ranks.run(2, updated_behind_an_all_reduce) == [[30.0, 300.0], [60.0, 600.0]]
