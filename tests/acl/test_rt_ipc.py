"""acl.rt: memory and notifies that ranks hand to one another by keys."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ascend_rt as rt
from ascend_rt import acl
from ascend_rt.testing import RankPool

from ..answers import made

INVALID, REFUSED = acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_ERROR_RT_NO_PERMISSION
HANDLE = acl.ACL_ERROR_RT_INVALID_HANDLE
N = 4097


def exported(nbytes: int = N, flag: int = 1) -> tuple[int, str]:
    address = made(acl.rt.malloc(nbytes, 0))
    return address, made(acl.rt.ipc_mem_get_export_key(address, nbytes, 65, flag))


def tell(comm: Any, text: str | None) -> str:
    """Rank 0's text, on every rank."""
    letters = np.zeros(128, np.uint8)
    if text is not None:
        letters[: len(text)] = np.frombuffer(text.encode(), np.uint8)
    comm.broadcast(letters, 0)
    return letters.tobytes().rstrip(b"\0").decode()


# ---- between ranks ----


def freed_while_it_is_used(comm: Any, closed: bool) -> None:
    """Rank 1's copy is queued when rank 0 frees the memory, and what it waits for comes later."""
    assert acl.rt.set_device(comm.rank) == 0
    device = comm._memory.device
    address, key = exported() if comm.rank == 0 else (0, None)
    key = tell(comm, key)
    if comm.rank == 0:
        assert acl.rt.memset(address, N, 3, N) == 0
        comm.barrier()
        before = device.in_use
        assert not closed or acl.rt.ipc_mem_close(key) == 0
        assert acl.rt.free(address) == 0 and device.in_use == before
        others = [made(acl.rt.malloc(N, 0)) for _ in range(8)]
        assert address not in others and all(acl.rt.memset(other, N, 9, N) == 0 for other in others)
        comm.barrier()
        comm.barrier()
        assert all(acl.rt.free(other) == 0 for other in others) and device.in_use < before
        again = exported()[1]
        assert again[:16] == key[:16] and again != key  # the record, and nothing else, is used again
        return
    imported, own = made(acl.rt.ipc_mem_import_by_key(key, 1)), made(acl.rt.malloc(N, 0))
    gate, stream = made(acl.rt.create_notify(0)), made(acl.rt.create_stream())
    assert acl.rt.wait_and_reset_notify(gate, stream, 0) == 0
    assert acl.rt.memcpy_async(own, N, imported, N, 3, stream) == 0
    comm.barrier()
    comm.barrier()
    assert acl.rt.memset(imported, 1, 0, 1) == INVALID  # no use begins any more
    assert acl.rt.record_notify(gate, 0) == 0 and acl.rt.synchronize_stream(stream) == 0
    assert acl.util.ptr_to_bytes(own, N) == b"\3" * N
    assert acl.rt.destroy_stream(stream) == 0
    comm.barrier()


@pytest.mark.processes
@pytest.mark.parametrize("closed", [False, True])
def test_freed_while_it_is_used(ranks: RankPool, closed: bool) -> None:
    ranks.run(2, freed_while_it_is_used, closed)


def hand_over(comm: Any) -> None:
    assert acl.rt.set_device(comm.rank) == 0
    address, key = exported() if comm.rank == 0 else (0, None)
    if address:
        assert acl.rt.memset(address, N, 3, N) == 0
    key = tell(comm, key)
    if comm.rank == 1:
        address = made(acl.rt.ipc_mem_import_by_key(key, 1))
        assert made(acl.rt.pointer_get_attributes(address))["location"]["id"] == 0
        assert acl.util.ptr_to_bytes(address, N) == b"\3" * N
        own = made(acl.rt.malloc(N, 0))
        assert acl.rt.memset(own, N, 8, N) == acl.rt.memcpy_async(address, N, own, N, 3, 0) == 0
        assert acl.rt.synchronize_stream(0) == 0
        # Bounds are the exporter's, to the byte; and what is another's is neither freed nor exported again.
        assert acl.rt.memset(address, N + 1, 0, N + 1) == acl.rt.memset(address + N, 1, 0, 1) == INVALID
        assert acl.rt.free(address) == INVALID
        assert acl.rt.ipc_mem_get_export_key(address, N, 65, 1)[1] == INVALID
        comm.barrier()
        comm.barrier()
        assert acl.rt.memset(address, 1, 0, 1) == INVALID  # the exporter has freed it
        assert acl.rt.ipc_mem_import_by_key(key, 0)[1] == INVALID
        assert acl.rt.ipc_mem_close(key) == 0 and acl.rt.ipc_mem_close(key) == INVALID
        return
    comm.barrier()
    assert acl.util.ptr_to_bytes(address, N) == b"\10" * N
    assert acl.rt.free(address) == 0
    assert acl.rt.ipc_mem_close(key) == INVALID
    comm.barrier()


def allow_one(comm: Any) -> int:
    assert acl.rt.set_device(comm.rank) == 0
    pids = comm.all_gather(np.array([made(acl.rt.device_get_bare_tgid())])).ravel().tolist()
    key = None
    if comm.rank == 0:
        _, key = exported(flag=0)
        assert acl.rt.ipc_mem_set_import_pid(key, [pids[1]]) == 0
    key = tell(comm, key)
    ret = acl.rt.ipc_mem_import_by_key(key, 0)[1]
    if comm.rank == 2:
        assert f"not to process {pids[2]}" in acl.get_recent_err_msg()
    comm.barrier()
    return int(ret)


def ping_pong(comm: Any) -> list[int]:
    """A counter goes round in rank 0's memory, behind notifies of both."""
    assert acl.rt.set_device(comm.rank) == 0
    stream, mine = made(acl.rt.create_stream()), made(acl.rt.create_notify(0))
    key = made(acl.rt.notify_get_export_key(mine, 65, 2))
    assert made(acl.rt.notify_get_export_key(mine, 65, 2)) == key
    keys = comm.all_gather(np.frombuffer(key.encode(), np.uint8).copy())
    theirs = made(acl.rt.notify_import_by_key(bytes(keys[1 - comm.rank]).decode(), 0))
    memory_key = tell(comm, exported(8)[1] if comm.rank == 0 else None)
    word = made(acl.rt.ipc_mem_import_by_key(memory_key, 1))
    seen, scratch = [], made(acl.rt.malloc_host(8 * 50))
    for turn in range(50):
        if turn or comm.rank == 1:
            assert acl.rt.wait_and_reset_notify(mine, stream, 10_000) == 0
        assert acl.rt.memcpy_async(scratch + 8 * turn, 8, word, 8, 4, stream) == 0
        assert acl.rt.value_write(word, 2 * turn + comm.rank, 0, stream) == 0
        assert acl.rt.record_notify(theirs, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0, acl.get_recent_err_msg()
    seen = acl.util.ptr_to_numpy(scratch, (50,), np.uint64).tolist()
    comm.barrier()
    assert acl.rt.destroy_notify(theirs) == 0
    if comm.rank == 0:
        assert acl.rt.destroy_notify(mine) == 0
    comm.barrier()
    if comm.rank == 1:
        assert acl.rt.notify_import_by_key(bytes(keys[0]).decode(), 0)[1] == INVALID
    return seen[1:]


def waits_for_a_value_of_another_rank(comm: Any) -> None:
    assert acl.rt.set_device(comm.rank) == 0
    address, key = exported(8) if comm.rank == 0 else (0, None)
    if address:
        assert acl.rt.memset(address, 8, 0, 8) == 0
    word = made(acl.rt.ipc_mem_import_by_key(tell(comm, key), 1))
    for turn in range(1, 20):
        if turn % 2 == comm.rank:
            assert acl.rt.value_write(word, turn, 0, 0) == 0
        else:
            assert acl.rt.value_wait(word, turn, acl.ACL_STREAM_WAIT_VALUE_GEQ, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    comm.barrier()


def uses_a_notify_that_was_destroyed(comm: Any) -> None:
    assert acl.rt.set_device(comm.rank) == 0
    mine = made(acl.rt.create_notify(0))
    key = tell(comm, made(acl.rt.notify_get_export_key(mine, 65, 2)) if comm.rank == 0 else None)
    theirs = made(acl.rt.notify_import_by_key(key, 2)) if comm.rank == 1 else 0
    comm.barrier()
    if comm.rank == 0:
        assert acl.rt.destroy_notify(mine) == 0
    comm.barrier()
    if comm.rank == 1:
        assert acl.rt.record_notify(theirs, 0) == HANDLE and "has destroyed it" in acl.get_recent_err_msg()
        assert acl.rt.notify_get_export_key(theirs, 65, 2)[1] == HANDLE
        assert acl.rt.destroy_notify(theirs) == 0


@pytest.mark.processes
def test_memory_of_another_rank(ranks: RankPool) -> None:
    ranks.run(2, hand_over)


@pytest.mark.processes
def test_only_allowed_processes_import(ranks: RankPool) -> None:
    assert ranks.run(3, allow_one) == [REFUSED, 0, REFUSED]


@pytest.mark.processes
def test_notifies_order_streams_of_two_ranks(ranks: RankPool) -> None:
    first, second = ranks.run(2, ping_pong)
    assert first == [2 * turn + 1 for turn in range(49)] and second == [2 * turn for turn in range(1, 50)]


@pytest.mark.processes
def test_values_order_streams_of_two_ranks(ranks: RankPool) -> None:
    ranks.run(2, waits_for_a_value_of_another_rank)


@pytest.mark.processes
def test_a_notify_ends_with_its_owner(ranks: RankPool) -> None:
    ranks.run(2, uses_a_notify_that_was_destroyed)


# ---- keys ----


def test_keys_end_with_their_memory(device: int) -> None:
    address, key = exported()
    other = made(acl.rt.ipc_mem_get_export_key(address + 8, 8, 65, 0))
    assert len(key) == 64 and key != other
    assert acl.rt.ipc_mem_close(other) == 0 and acl.rt.ipc_mem_import_by_key(other, 0) == (0, INVALID)
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (address, 0)
    assert acl.rt.free(address) == 0 and acl.rt.ipc_mem_close(key) == 0
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (0, INVALID)


def test_keys_end_with_the_device(device: int) -> None:
    _, key = exported()
    notify_key = made(acl.rt.notify_get_export_key(made(acl.rt.create_notify(0)), 65, 2))
    assert acl.rt.reset_device(0) == acl.rt.set_device(0) == 0
    assert acl.rt.ipc_mem_import_by_key(key, 0) == acl.rt.notify_import_by_key(notify_key, 0) == (0, INVALID)


def test_memory_of_arrays_is_not_exported(device: int) -> None:
    x = rt.zeros(8)
    assert acl.rt.ipc_mem_get_export_key(acl.util.numpy_to_ptr(x), 8, 65, 1) == (0, INVALID)
    assert "memory of an array" in acl.get_recent_err_msg()


def test_keys_are_of_one_kind(device: int) -> None:
    notify = made(acl.rt.create_notify(0))
    key = made(acl.rt.notify_get_export_key(notify, 65, 2))
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (0, INVALID)
    assert acl.rt.notify_import_by_key(exported()[1], 0) == (0, INVALID)


def test_wrong_exports(device: int) -> None:
    address, key = exported()
    for arguments in ((address, 0, 65, 1), (address, -1, 65, 1), (address, N + 1, 65, 1), (address, N, 64, 1),
                      (address, N, 65, 2), (0, 8, 65, 1), (16, 8, 65, 1)):
        assert acl.rt.ipc_mem_get_export_key(*arguments) == (0, INVALID)
    assert acl.rt.ipc_mem_set_import_pid(key, [0]) == acl.rt.ipc_mem_set_import_pid(key, [1 << 40]) == INVALID
    assert acl.rt.ipc_mem_set_import_pid("0" * 64, [1]) == INVALID
    assert acl.rt.ipc_mem_set_import_pid(key, list(range(1, 65))) == 0
    assert acl.rt.ipc_mem_set_import_pid(key, [65]) == acl.ACL_ERROR_RT_OVER_LIMIT
    assert acl.rt.ipc_mem_import_by_key(key, 2) == (0, INVALID)
    notify = made(acl.rt.create_notify(0))
    assert acl.rt.notify_set_import_pid(notify, [1]) == INVALID  # it has no key yet
    assert acl.rt.notify_get_export_key(notify, 64, 0) == acl.rt.notify_get_export_key(notify, 65, 1) == (0, INVALID)
    assert acl.rt.notify_get_export_key(notify, 65, 0)[1] == acl.rt.notify_set_import_pid(notify, [1]) == 0
    for wrong in (lambda: acl.rt.ipc_mem_close(5), lambda: acl.rt.ipc_mem_set_import_pid(key, 5),
                  lambda: acl.rt.notify_import_by_key(b"", 0), lambda: acl.rt.notify_set_import_pid(notify, ["1"])):
        with pytest.raises(TypeError):
            wrong()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.text(), st.text("0123456789abcdef", min_size=64, max_size=64)), digit=st.integers(0, 47),
       other=st.sampled_from("0123456789abcdef"))
def test_wild_keys_lead_nowhere(device: int, text: str, digit: int, other: str) -> None:
    _, key = exported(8)
    changed = key[:digit] + other + key[digit + 1 :]
    for wrong in (text, changed):
        if wrong != key:
            assert acl.rt.ipc_mem_import_by_key(wrong, 0) == acl.rt.notify_import_by_key(wrong, 0) == (0, INVALID)
            assert acl.rt.ipc_mem_close(wrong) == acl.rt.ipc_mem_set_import_pid(wrong, [1]) == INVALID
