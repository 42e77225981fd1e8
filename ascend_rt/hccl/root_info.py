"""Root info: the bytes that one rank makes and hands to the others, by whatever way the program has, so that they meet.

Inside a job they name a group of its ranks.  In a process that is in no job they name a private meeting: whoever made
them starts the process that serves the ranks, and these become a job of their own.
"""

import itertools
import secrets

from ..acl import device as local
from ..acl.memory import DeviceMemory
from ..link import meeting
from ..link.errors import JoinError
from ..link.groups import WORLD
from ..link.membership import Membership
from ..link.placement import place
from ..link.rendezvous import enter_private
from ..settings import Settings
from .communicator import Communicator
from .errors import HcclError, HcclResult, unavailable
from .groups import Place, form

ROOT_INFO_NBYTES = 4108
MAGIC = "ascend_rt root info 1"
GROUP, MEETING = "group", "meeting"

# Of all ranks of a job: each may take its own root info for it, and the next is another communicator.
_of_all_ranks = itertools.count(1)


def make(settings: Settings) -> bytes:
    """4108 bytes for the ranks of one communicator."""
    kind, name = (GROUP, secrets.token_hex(16)) if is_in_a_job(settings) else (MEETING, meeting.open_private())
    return f"{MAGIC} {kind} {name}".encode().ljust(ROOT_INFO_NBYTES, b"\0")


def communicator(root_info: bytes, size: int, rank: int, settings: Settings, name: str | None) -> Communicator:
    """The communicator of the `size` ranks that have these bytes, this one as its rank `rank`. Blocks until all are
    here, at most HCCL_CONNECT_TIMEOUT seconds.

    HcclError as of `form`, HCCL_E_PARA for bytes that are no root info or another job's, HCCL_E_UNAVAIL if nobody meets
    there any more.
    """
    kind, token = _parse(root_info)
    name = name or f"root_info_{token[-8:]}"
    if size == 1 or kind == GROUP:
        device = own_device()
        membership, memory = device.membership, device.memory
        if size > 1 and membership.size == 1:
            text = f"rank {rank}: root_info names ranks of a job, and this process is in none"
            raise HcclError(HcclResult.HCCL_E_PARA, text, [rank])
        key = token if size < membership.size else f"all{next(_of_all_ranks)}"
        return form(membership, memory, settings, Place(key, rank, size), name)
    try:
        membership = enter_private(token, rank, size, settings.hccl_connect_timeout)
        membership.await_all(settings.hccl_connect_timeout)
    except JoinError as error:
        raise unavailable(error) from None
    return form(membership, memory_in(membership), settings, Place(WORLD, rank, size), name)


def memory_in(membership: Membership) -> DeviceMemory:
    """Device memory of this process in another job: that of its devices, if they can move there, else only for what
    the communicator needs itself. Arrays of the program then lie outside of it, and go through it in pieces."""
    if local.move_to(membership):
        return local.in_use().memory if local.current_context_handle() else own_device().memory
    local.join_besides(membership)
    return DeviceMemory(membership.segment, membership.rank, membership.rank)


def own_device() -> local.LocalDevice:
    """The device that this process is at home on. HcclError (HCCL_E_UNAVAIL) if its job cannot be joined."""
    try:
        return local.current()
    except JoinError as error:
        raise unavailable(error) from None


def is_in_a_job(settings: Settings) -> bool:
    """Whether the environment describes a job of several ranks, which can be joined by what it says."""
    try:
        placement = place(settings)
    except JoinError as error:
        raise unavailable(error) from None
    return placement is not None and placement.size > 1 and not placement.missing


def _parse(root_info: bytes) -> tuple[str, str]:
    text = root_info.rstrip(b"\0").decode(errors="replace")
    magic, _, rest = text.partition(f"{MAGIC} ")
    kind, _, token = rest.partition(" ")
    if magic or kind not in (GROUP, MEETING) or not token or len(root_info) != ROOT_INFO_NBYTES:
        given = f"{len(root_info)} bytes that begin with {root_info[:16]!r}"
        text = f"root_info is {given}; expected what HcclGetRootInfo returned on one rank, {ROOT_INFO_NBYTES} bytes"
        raise HcclError(HcclResult.HCCL_E_PARA, text)
    return kind, token
