"""HCCL's C API of what becomes of a communicator: its status, suspending and resuming it, its end, and who is told;
and groups of calls.

Conventions and codes are those of c_api.py.
"""

# ruff: noqa: N802  the functions have their C names
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from ..acl.return_codes import integer
from ..diag import log
from . import grouping
from .c_conventions import (
    CodedError,
    communicators,
    find_communicator,
    handle_named,
    returns_result,
    returns_value_and_result,
    usable_communicator,
)
from .errors import HcclResult
from .groups import Place, form, servers_of
from .world import replace_world


class HcclCommStatus(IntEnum):
    """What HcclCommGetStatus says."""

    HCCL_COMM_STATUS_READY = 0
    HCCL_COMM_STATUS_SUSPENDING = 1
    HCCL_COMM_STATUS_INVALID = 254
    HCCL_COMM_STATUS_RESERVED = 255


class HcclCommStatePhase(IntEnum):
    """When a callback of HcclCommRegCommStateCallback is called."""

    HCCL_COMM_STATE_PHASE_INVALID = -1
    HCCL_COMM_STATE_PHASE_DESTROY_PRE = 0
    HCCL_COMM_STATE_PHASE_DESTROY_POST = 1
    HCCL_COMM_STATE_PHASE_RESUME_PRE = 2
    HCCL_COMM_STATE_PHASE_RESUME_POST = 3


StateCallback = Callable[[int, HcclCommStatePhase, Any], int | None]
"""(comm, phase, args) -> HcclResult; None is HCCL_SUCCESS."""

_callbacks: dict[str, tuple[StateCallback, Any]] = {}


@returns_value_and_result
def HcclCommGetStatus(comm_name: str, /) -> HcclCommStatus:
    """(HcclCommStatus, ret) of the latest communicator of this name: ready, suspending, or invalid because it has ended
    (after a death, a timeout or an interrupt). HCCL_E_NOT_FOUND: this process has none."""
    communicator = find_communicator(handle_named(comm_name))
    if communicator._suspended:
        return HcclCommStatus.HCCL_COMM_STATUS_SUSPENDING
    ended = communicator._abort_word() != 0
    return HcclCommStatus.HCCL_COMM_STATUS_INVALID if ended else HcclCommStatus.HCCL_COMM_STATUS_READY


@returns_result
def HcclCommSuspend(comm: int, /) -> None:
    """From here on calls by this handle give HCCL_E_SUSPENDING, on this rank; what is queued still runs. Again: the
    same."""
    find_communicator(comm)._suspended = True


@returns_result
def HcclCommResume(comm: int, /) -> None:
    """The handle is good again, for a fresh communicator of the same ranks, name and configuration.

    Every rank has to call it; it blocks until all do, HCCL_CONNECT_TIMEOUT at most. The communicator may have been
    suspended, or ended by a timeout or an interrupt; what was queued on it must be over (HCCL_E_AGAIN), for which
    acl.rt.device_task_abort is there. HCCL_E_REMOTE: one of its ranks has ended.
    """
    old = find_communicator(comm)
    if old._in_use():
        text = f'communicator "{old.name}" is in use: acl.rt.device_task_abort drops what is queued'
        raise CodedError(HcclResult.HCCL_E_AGAIN, text)
    _tell(comm, HcclCommStatePhase.HCCL_COMM_STATE_PHASE_RESUME_PRE)
    servers = servers_of(old, range(old.size))
    place = Place(f"{old._group.board}.resume", old.rank, old.size, old.world_ranks, servers)
    fresh = form(old._membership, old._memory, old._settings, place, old.name)
    communicators.replace(comm, fresh)
    replace_world(old, fresh)
    old.destroy()
    _tell(comm, HcclCommStatePhase.HCCL_COMM_STATE_PHASE_RESUME_POST)


@returns_result
def HcclCommDestroy(comm: int, /) -> None:
    """The communicator is used no more by this rank. Waits for nobody: a rank that calls it all the same learns who
    has destroyed it. HCCL_E_AGAIN: a call runs in another thread, or is queued."""
    find_communicator(comm)
    grouping.destroy(lambda: _destroy(comm))


def _destroy(comm: int) -> None:
    communicator = find_communicator(comm)
    if communicator._in_use():
        text = f'communicator "{communicator.name}" is in use: synchronize its streams, then destroy it'
        raise CodedError(HcclResult.HCCL_E_AGAIN, text)
    _tell(comm, HcclCommStatePhase.HCCL_COMM_STATE_PHASE_DESTROY_PRE)
    communicators.remove(comm)
    communicator.destroy()
    _tell(comm, HcclCommStatePhase.HCCL_COMM_STATE_PHASE_DESTROY_POST)


@returns_result
def HcclCommRegCommStateCallback(reg_name: str, callback: StateCallback | None, args: Any, /) -> None:
    """Have callback(comm, phase, args) called before and after HcclCommDestroy and HcclCommResume of any communicator
    of this process, in the order in which they were registered. The same reg_name again replaces it.

    phase: HcclCommStatePhase. What it returns, if that is neither None nor HCCL_SUCCESS, is the result of the function
    that called it, which before PRE has done nothing yet and after POST has done all. HCCL_E_PTR: callback is None.
    """
    if not isinstance(reg_name, str):
        raise TypeError(f"reg_name is a {type(reg_name).__name__}; expected a str")
    if callback is None:
        raise CodedError(HcclResult.HCCL_E_PTR, "callback is None")
    if not callable(callback):
        raise TypeError(f"callback is a {type(callback).__name__}; expected a function of (comm, phase, args)")
    _callbacks[reg_name] = callback, args


def _tell(comm: int, phase: HcclCommStatePhase) -> None:
    for name, (callback, args) in list(_callbacks.items()):
        try:
            result = HcclResult(callback(comm, phase, args) or 0)
        except Exception as error:
            text = f"the callback {name!r} raised {type(error).__name__} in {phase.name}: {error}"
            raise CodedError(HcclResult.HCCL_E_INTERNAL, text) from error
        if result:
            raise CodedError(result, f"the callback {name!r} returned {result.name} in {phase.name}")


# ---- calls that are issued together ----


@returns_result
def HcclGroupStart() -> None:
    """From here on this thread's calls are collected, until as many HcclGroupEnd: collectives, or sends and receives,
    or HcclCommInitRootInfo, HcclCommInitClusterInfo and HcclCommDestroy. Calls of different kinds, and
    HcclBatchSendRecv, are HCCL_E_NOT_SUPPORT, as in CANN."""
    grouping.start()


@returns_result
def HcclGroupEnd() -> None:
    """Issue what was collected: sends and receives at once, none waiting for another; collectives in their order;
    communicators are made at once, so that one thread makes those of several ranks.

    What fails first is the result; a call in the group has said HCCL_SUCCESS if its handles were good.
    HCCL_E_NOT_SUPPORT: without HcclGroupStart.
    """
    grouping.end()


@returns_value_and_result
def HcclGroupStatusGet() -> bool:
    """(whether this thread is between HcclGroupStart and HcclGroupEnd, ret)"""
    return grouping.is_open()


# ---- network ----


@returns_result
def HcclCommWorkingDevNicSet(comm: int, ranks: Sequence[int], use_backup: Sequence[bool], n_ranks: int, /) -> None:
    """Checks its arguments, writes a warning to the log and switches nothing: ranks share memory, and have no NICs.
    CANN does the same where no RDMA link is."""
    communicator = usable_communicator(comm)
    listed = [integer("ranks", rank) for rank in ranks]
    if not len(listed) == len(use_backup) == integer("n_ranks", n_ranks):
        given = f"{len(listed)} ranks, {len(use_backup)} of use_backup and n_ranks={n_ranks}"
        raise CodedError(HcclResult.HCCL_E_PARA, f"{given}; expected as many of each")
    if not set(listed) <= set(range(communicator.size)):
        raise CodedError(HcclResult.HCCL_E_PARA, f"ranks={listed}; expected ranks from 0 to {communicator.size - 1}")
    log.write(log.WARNING, f'communicator "{communicator.name}": ranks {listed} have no NIC that could be switched')
