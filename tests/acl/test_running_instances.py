"""acl.mdl.ri_*: captures by handles and codes, as a program of acl_rt.h makes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_rt import acl, capi, ge
from ascend_rt.acl import recording

pytestmark = pytest.mark.threads

GLOBAL, RELAXED = acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED
NONE, ACTIVE, INVALIDATED = (0, 1, 2)
KIND = acl.ACL_MEMCPY_DEVICE_TO_DEVICE


def device_memory(values: Any) -> int:
    pointer, ret = acl.rt.malloc(values.nbytes, acl.ACL_MEM_MALLOC_HUGE_FIRST)
    assert ret == 0
    acl.util.ptr_to_numpy(pointer, values.shape, values.dtype)[...] = values
    return pointer


def values_at(pointer: int, count: int) -> list[int]:
    return acl.util.ptr_to_numpy(pointer, (count,), np.uint8).tolist()


def test_a_program_captures_executes_and_destroys(stream: int, tmp_path: Path, capsys: Any) -> None:
    random = np.random.default_rng(3).integers(0, 256, 64).astype(np.uint8)
    x, y = device_memory(random), device_memory(np.zeros(64, np.uint8))
    assert acl.mdl.ri_capture_get_info(stream) == (NONE, 0, 0)
    assert acl.mdl.ri_capture_begin(stream, GLOBAL) == 0
    status, model, ret = acl.mdl.ri_capture_get_info(stream)
    assert (status, ret) == (ACTIVE, 0) and model
    assert acl.rt.memcpy_async(y, 64, x, 48, KIND, stream) == 0
    assert acl.rt.memset_async(y + 48, 16, 7, 16, stream) == 0
    assert acl.mdl.ri_execute_async(model, stream) == acl.ACL_ERROR_RT_MODEL_CAPTURED
    assert acl.mdl.ri_capture_end(stream) == (model, 0)
    assert values_at(y, 64) == [0] * 64
    expected = [*random[:48].tolist(), *[7] * 16]
    for execute in (lambda: acl.mdl.ri_execute_async(model, stream), lambda: acl.mdl.ri_execute(model, -1)):
        acl.rt.memset(y, 64, 0, 64)
        assert execute() == 0 and acl.rt.synchronize_stream(stream) == 0
        assert values_at(y, 64) == expected
    assert acl.mdl.ri_set_name(model, "two tasks") == 0 and acl.mdl.ri_get_name(model) == ("two tasks", 0)
    assert acl.mdl.ri_debug_print(model) == 0 and "graph 'two tasks': 2 nodes on 1 stream" in capsys.readouterr().out
    assert acl.mdl.ri_debug_json_print(model, str(tmp_path / "trace.json"), 1) == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [(event["name"], event["ts"], event["tid"]) for event in events] == [("copy", 0, 0), ("memset", 1, 0)]
    assert (events[0]["args"]["reads"], events[1]["args"]["writes"]) == ("b1[0:48]", "b0[48:64]")
    assert acl.mdl.ri_destroy(model) == 0
    assert acl.mdl.ri_execute_async(model, stream) == acl.ACL_ERROR_RT_INVALID_HANDLE


def test_what_was_freed_is_there_while_a_graph_uses_it(stream: int) -> None:
    x, y = device_memory(np.arange(32, dtype=np.uint8)), device_memory(np.zeros(32, np.uint8))
    acl.mdl.ri_capture_begin(stream, GLOBAL)
    acl.rt.memcpy_async(y, 32, x, 32, KIND, stream)
    model, ret = acl.mdl.ri_capture_end(stream)
    assert ret == 0 and acl.rt.free(x) == 0
    other = device_memory(np.full(32, 9, np.uint8))
    assert acl.mdl.ri_execute(model, -1) == 0
    assert values_at(y, 32) == list(range(32)) and values_at(other, 32) == [9] * 32
    acl.mdl.ri_destroy(model)


def test_unsafe_calls_are_forbidden_by_mode(stream: int) -> None:
    x = device_memory(np.zeros(8, np.uint8))
    acl.mdl.ri_capture_begin(stream, RELAXED)
    assert acl.rt.memset(x, 8, 1, 8) == 0
    assert acl.mdl.ri_capture_end(stream)[1] == 0
    host, kept = np.zeros(8, np.uint8), acl.rt.create_stream()[0]
    to_device, pageable = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.util.numpy_to_ptr(host)
    unsafe, blocks = acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC
    calls = (
        (lambda: acl.rt.memset(x, 8, 2, 8), unsafe),
        (lambda: acl.rt.memcpy(x, 4, x + 4, 4, KIND), unsafe),
        (lambda: acl.rt.memcpy_async(x, 8, pageable, 8, to_device, kept), blocks),
        (lambda: acl.rt.memcpy2d_async(x, 4, pageable, 4, 4, 2, to_device, kept), blocks),
    )
    for call, code in calls:
        acl.mdl.ri_capture_begin(stream, GLOBAL)
        assert acl.mdl.ri_capture_thread_exchange_mode(RELAXED) == (GLOBAL, 0)
        assert call() == 0
        assert acl.mdl.ri_capture_thread_exchange_mode(GLOBAL) == (RELAXED, 0)
        assert call() == code
        assert acl.mdl.ri_capture_get_info(stream)[0] == INVALIDATED
        assert acl.mdl.ri_capture_end(stream) == (0, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED)
        assert "test_running_instances.py" in acl.get_recent_err_msg()


def test_codes(stream: int) -> None:
    other, _ = acl.rt.create_stream()
    assert acl.mdl.ri_capture_begin(0, GLOBAL) == acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT
    assert acl.mdl.ri_capture_begin(stream, 3) == acl.ACL_ERROR_RT_PARAM_INVALID
    assert acl.mdl.ri_capture_begin(7, GLOBAL) == acl.ACL_ERROR_RT_INVALID_HANDLE
    assert acl.mdl.ri_capture_end(stream) == (0, acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED)
    assert acl.mdl.ri_capture_begin(stream, GLOBAL) == 0
    assert acl.mdl.ri_capture_begin(stream, GLOBAL) == acl.ACL_ERROR_RT_STREAM_CAPTURED
    event, _ = acl.rt.create_event()
    assert acl.rt.record_event(event, stream) == 0 and acl.rt.stream_wait_event(other, event) == 0
    assert acl.mdl.ri_capture_end(other) == (0, acl.ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED)
    assert acl.mdl.ri_capture_end(stream) == (0, acl.ACL_ERROR_RT_STREAM_UNJOINED)
    assert not recording.is_active() and acl.mdl.ri_capture_get_info(other) == (NONE, 0, 0)
    for act in (acl.rt.synchronize_stream, acl.rt.destroy_stream, lambda s: acl.rt.stream_query(s)[1]):
        acl.mdl.ri_capture_begin(stream, GLOBAL)
        assert act(stream) == acl.ACL_ERROR_RT_STREAM_CAPTURED
        assert acl.mdl.ri_capture_end(stream)[1] == acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED
    acl.mdl.ri_capture_begin(stream, GLOBAL)
    acl.rt.record_event(event, stream)
    assert acl.rt.synchronize_event(event) == acl.ACL_ERROR_RT_EVENT_CAPTURED
    assert acl.mdl.ri_capture_end(stream)[1] == acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED
    assert acl.mdl.ri_destroy(5) == acl.ACL_ERROR_RT_INVALID_HANDLE


def test_a_task_group_is_updated_by_its_handle(stream: int) -> None:
    """Another buffer and another count of a copy, for executions from then on."""
    x, y = device_memory(np.arange(8, dtype=np.uint8)), device_memory(np.zeros(8, np.uint8))
    other, _ = acl.rt.create_stream()
    status = acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS
    assert acl.mdl.ri_capture_task_grp_begin(stream) == acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED
    acl.mdl.ri_capture_begin(stream, GLOBAL)
    assert acl.mdl.ri_capture_task_grp_begin(stream) == 0
    assert acl.mdl.ri_capture_task_grp_begin(stream) == status
    acl.rt.memcpy_async(y, 8, x, 2, KIND, stream)
    group, ret = acl.mdl.ri_capture_task_grp_end(stream)
    assert ret == 0 and acl.mdl.ri_capture_task_grp_end(stream) == (0, status)
    assert acl.mdl.ri_capture_task_update_begin(other, group) == acl.ACL_ERROR_RT_MODEL_CAPTURED
    model, ret = acl.mdl.ri_capture_end(stream)
    assert ret == 0 and acl.mdl.ri_execute(model, -1) == 0 and values_at(y, 8) == [0, 1, 0, 0, 0, 0, 0, 0]
    z = device_memory(np.arange(20, 28, dtype=np.uint8))
    assert acl.mdl.ri_capture_task_update_end(other) == status
    assert acl.mdl.ri_capture_task_update_begin(other, group) == 0
    assert acl.mdl.ri_capture_get_info(other) == (NONE, 0, 0)
    acl.rt.memcpy_async(y + 1, 7, z, 4, KIND, other)
    assert acl.mdl.ri_capture_task_update_end(other) == 0 and acl.rt.synchronize_stream(other) == 0
    assert values_at(y, 8) == [0, 1, 0, 0, 0, 0, 0, 0]
    assert acl.rt.free(z) == 0 and acl.mdl.ri_execute(model, -1) == 0
    assert values_at(y, 8) == [0, 20, 21, 22, 23, 0, 0, 0]
    acl.mdl.ri_capture_task_update_begin(other, group)
    assert acl.mdl.ri_capture_task_update_end(other) == acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED
    assert "task group 0 of stream 0, which began at test_running_instances.py" in acl.get_recent_err_msg()
    acl.mdl.ri_destroy(model)
    assert acl.mdl.ri_capture_task_update_begin(other, group) == acl.ACL_ERROR_RT_INVALID_HANDLE


def test_an_instance_that_runs_is_aborted_and_other_streams_go_on(stream: int) -> None:
    x, word = device_memory(np.zeros(16, np.uint8)), device_memory(np.zeros(8, np.uint8))
    acl.mdl.ri_capture_begin(stream, GLOBAL)
    acl.rt.memset_async(x, 16, 5, 8, stream)
    model, _ = acl.mdl.ri_capture_end(stream)
    ids = [acl.mdl.ri_get_id(model) for _ in range(2)]
    assert ids[0] == ids[1] and ids[0][1] == 0 and acl.mdl.ri_get_id(5) == (0, acl.ACL_ERROR_RT_INVALID_HANDLE)
    assert acl.mdl.ri_abort(model) == 0 and acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.value_wait(word, 1, 1, stream) == 0
    assert acl.mdl.ri_execute_async(model, stream) == 0 and acl.mdl.ri_abort(model) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_STREAM_ABORT
    assert values_at(x, 16) == [0] * 16 and acl.mdl.ri_execute_async(model, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0 and values_at(x, 16) == [5] * 8 + [0] * 8
    assert acl.mdl.ri_abort(model) == 0 and acl.rt.synchronize_stream(stream) == 0


def test_the_c_spellings_are_the_functions() -> None:
    for name in (name for name in ge.mdl.__all__ if name.startswith("ri_")):
        spelling = "".join(word.capitalize() for word in name.removeprefix("ri_").split("_"))
        assert getattr(capi, f"aclmdlRI{spelling}") is getattr(acl.mdl, name) is getattr(ge.mdl, name)
