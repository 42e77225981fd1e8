"""The limit on waiting, lowered where a test waits for it: all that comes before is not under it, and a machine that
stalls for a second then fails nothing."""

from ascend_rt.hccl import Communicator


def give_up_after_a_second(comm: Communicator) -> None:
    """As if HCCL_EXEC_TIMEOUT were 1, from here on and on this rank; also for a call that waits already."""
    comm._tune_by(comm._settings.with_config({"hcclExecTimeOut": 1}), comm._membership.size)
