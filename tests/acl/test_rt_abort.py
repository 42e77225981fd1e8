"""acl.rt: what other ranks see of collectives that one drops, and the end of programs that leave streams waiting."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.testing import RankPool

from ..answers import made

pytestmark = pytest.mark.processes

ABORTED = acl.ACL_ERROR_RT_STREAM_ABORT
FP32 = hccl.HcclDataType.HCCL_DATA_TYPE_FP32


def communicator(comm: Any) -> int:
    assert acl.rt.set_device(comm.rank) == 0
    return hccl.handle_of(comm)


def drops_a_collective_that_has_not_begun(comm: Any) -> list[float]:
    handle, x = communicator(comm), made(acl.rt.malloc(4, 0))
    if comm.rank == 0:
        assert acl.rt.wait_and_reset_notify(made(acl.rt.create_notify(0)), 0, 0) == 0
        assert hccl.HcclAllReduce(x, x, 1, FP32, 0, handle, 0) == 0
        assert acl.rt.stream_abort(0) == 0 and acl.rt.synchronize_stream(0) == ABORTED
    with pytest.raises(rt.HcclError, match="do not agree"):
        comm.all_reduce(np.ones(3, np.float32))
    comm.resync()
    return [float(value) for value in comm.all_reduce(np.full(2, comm.rank, np.float32))]


def drops_a_collective_under_way(comm: Any) -> str:
    handle, x, segment = communicator(comm), made(acl.rt.malloc(4, 0)), comm._membership.segment
    if comm.rank == 0:
        assert hccl.HcclAllReduce(x, x, 1, FP32, 0, handle, 0) == 0
        while segment.rank_line(0).waits_for != 1:
            pass  # until its line is on the board and it waits for rank 1
        assert acl.rt.stream_abort(0) == 0 and acl.rt.synchronize_stream(0) == ABORTED
    while not segment.abort_word():
        pass
    with pytest.raises(rt.HcclError) as error:
        comm.all_reduce(np.ones(1, np.float32))
    return error.value.name


def test_ranks_go_on_after_a_dropped_collective(ranks: RankPool) -> None:
    assert ranks.run(2, drops_a_collective_that_has_not_begun) == [[1.0, 1.0]] * 2


def test_dropping_a_collective_under_way_ends_the_communicator(ranks: RankPool) -> None:
    first, second = ranks.run(2, drops_a_collective_under_way)
    assert first == second


ENDINGS = {
    "a notify": "acl.rt.wait_and_reset_notify(acl.rt.create_notify(0)[0], stream, 0)",
    "a value": "acl.rt.memset(word, 8, 0, 8) or acl.rt.value_wait(word, 1, 1, stream)",
    "a callback": "acl.rt.subscribe_report(threading.get_ident(), stream) or "
                  "acl.rt.launch_callback(print, 'never', 1, stream)",
}


@pytest.mark.parametrize("what", ENDINGS)
def test_a_program_ends_although_a_stream_waits(ranks: RankPool, tmp_path: Path, what: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import threading
import acl
assert acl.rt.set_device(0) == 0
stream, word = acl.rt.create_stream()[0], acl.rt.malloc(8, 0)[0]
assert ({ENDINGS[what]}) == 0, acl.get_recent_err_msg()
assert acl.rt.synchronize_stream_with_timeout(stream, 20) == 507046
print("over")
""")
    ended = ranks.hccl_run(["-n", "1", "--timeout", "10", "--no-prefix", "--acl", str(program)])
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "over\n", "")
