"""HcclResult, and the one exception that carries it.

    RuntimeError
     +-- HcclError      .code: HcclResult, .name: its name, .ranks: the ranks at fault
"""

from collections.abc import Sequence
from enum import IntEnum

from ..link.errors import JoinError


class HcclResult(IntEnum):
    """Return codes, with the numbers of hccl_types.h."""

    HCCL_SUCCESS = 0
    HCCL_E_PARA = 1
    HCCL_E_PTR = 2
    HCCL_E_MEMORY = 3
    HCCL_E_INTERNAL = 4
    HCCL_E_NOT_SUPPORT = 5
    HCCL_E_NOT_FOUND = 6
    HCCL_E_UNAVAIL = 7
    HCCL_E_SYSCALL = 8
    HCCL_E_TIMEOUT = 9
    HCCL_E_OPEN_FILE_FAILURE = 10
    HCCL_E_TCP_CONNECT = 11
    HCCL_E_ROCE_CONNECT = 12
    HCCL_E_TCP_TRANSFER = 13
    HCCL_E_ROCE_TRANSFER = 14
    HCCL_E_RUNTIME = 15
    HCCL_E_DRV = 16
    HCCL_E_PROFILING = 17
    HCCL_E_CCE = 18
    HCCL_E_NETWORK = 19
    HCCL_E_AGAIN = 20
    HCCL_E_REMOTE = 21
    HCCL_E_SUSPENDING = 22
    HCCL_E_OPRETRY_FAIL = 23
    HCCL_E_OOM = 24
    HCCL_E_IN_STATUS = 1041


class HcclError(RuntimeError):
    """A collective failed, on every rank of its communicator alike.

    code    HcclResult
    name    its name, "HCCL_E_PARA"
    ranks   ranks at fault, as far as they are known
    ei      the EIxxxx code that CANN's log would show, "" if it has none
    """

    __module__ = "ascend_rt.hccl"

    def __init__(self, code: HcclResult, text: str, ranks: Sequence[int] = (), ei: str = "") -> None:
        self.code, self.name, self.ranks, self.ei = code, code.name, tuple(ranks), ei
        super().__init__(f"{code.name} ({int(code)}){f', {ei}' if ei else ''}: {text}")


def unavailable(error: JoinError) -> HcclError:
    """Why a job cannot be joined, as what collectives raise."""
    return HcclError(HcclResult.HCCL_E_UNAVAIL, str(error), error.ranks, error.code)
