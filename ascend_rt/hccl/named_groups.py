"""Groups of ranks by name, as hccl.manage.api and hccl.split.api know them: the world, and those of create_group."""

import contextlib
import hashlib

from . import world
from .c_conventions import CodedError, communicators, handle_named
from .communicator import Communicator
from .config import COMM_NAME_MAX_LENGTH
from .errors import HcclError, HcclResult
from .groups import Place, form, servers_of

WORLD_GROUP = "hccl_world_group"
MOST_RANKS = 32768

_groups: dict[str, Communicator] = {}


def find(group: str) -> Communicator:
    """The communicator of a group, of which this process must be a rank; that of the world is made if nobody has.

    HcclError (HCCL_E_PARA): no name; HCCL_E_NOT_FOUND: there is no such group, or this rank is not in it.
    """
    _check(group)
    if group == WORLD_GROUP:
        return world.init()
    known = _groups.get(group)
    if known is None:
        text = f"rank {world.init().rank} is in no group {group!r}; create_group, on each of its ranks, makes one"
        raise HcclError(HcclResult.HCCL_E_NOT_FOUND, text)
    return known


def create(group: str, rank_num: int, rank_ids: list[int]) -> None:
    """See hccl.manage.api.create_group."""
    _check(group)
    whole = world.init()
    if group == WORLD_GROUP or group in _groups:
        raise HcclError(HcclResult.HCCL_E_PARA, f"group={group!r}: there is a group of this name on rank {whole.rank}")
    ids = _ranks(rank_num, rank_ids, whole)
    name = hashlib.sha256(group.encode()).hexdigest()[:32]
    members = tuple(whole.world_ranks[each] for each in ids)
    place = Place(f"named{name}", ids.index(whole.rank), len(ids), members, servers_of(whole, ids))
    made = form(whole._membership, whole._memory, whole._settings, place, group)
    _groups[group] = made
    communicators.add(made)


def destroy(group: str) -> None:
    """See hccl.manage.api.destroy_group."""
    if group == WORLD_GROUP:
        raise HcclError(HcclResult.HCCL_E_PARA, f"group={group!r} is the world, which rt.finalize() ends")
    made = find(group)
    del _groups[group]
    with contextlib.suppress(CodedError):  # HcclCommDestroy may have been faster
        communicators.remove(handle_named(group))
    made.destroy()


def _check(group: str) -> None:
    if not isinstance(group, str):
        raise TypeError(f"group is a {type(group).__name__}; expected a str")
    if not 0 < len(group.encode()) < COMM_NAME_MAX_LENGTH:
        text = f"group={group!r}; expected a name of less than {COMM_NAME_MAX_LENGTH} bytes"
        raise HcclError(HcclResult.HCCL_E_PARA, text)


def _ranks(rank_num: int, rank_ids: list[int], whole: Communicator) -> list[int]:
    ids = [int(each) for each in rank_ids]
    if len(ids) != rank_num or not 0 < rank_num <= MOST_RANKS or len(set(ids)) < len(ids):
        text = f"rank_num={rank_num}, rank_ids={ids}; expected so many ranks, each once"
        raise HcclError(HcclResult.HCCL_E_PARA, text)
    if not set(ids) <= set(range(whole.size)):
        raise HcclError(HcclResult.HCCL_E_PARA, f"rank_ids={ids}; expected ranks of the world, 0 to {whole.size - 1}")
    if whole.rank not in ids:
        raise HcclError(HcclResult.HCCL_E_PARA, f"rank_ids={ids} on rank {whole.rank}; expected it to be one of them")
    return ids
