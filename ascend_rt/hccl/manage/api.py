"""Groups of ranks by name, as CANN's `hccl.manage.api` has them: `from hccl.manage.api import create_group`.

"hccl_world_group" is all ranks of the job. What asks for it joins the job, and waits for all ranks, if nobody has done
so (`rt.init()`). `HcclCommGetHandleWithName(group)` is a group's handle for collectives.

Every function raises TypeError for what is no name or no integer, and HcclError: HCCL_E_NOT_FOUND for a group that this
rank is not in, HCCL_E_PARA for numbers that are wrong.
"""

from collections.abc import Sequence

from .. import named_groups
from ..communicator import Communicator
from ..errors import HcclError, HcclResult
from ..named_groups import WORLD_GROUP, find

__all__ = [
    "create_group",
    "destroy_group",
    "get_group_rank_from_world_rank",
    "get_local_rank_id",
    "get_local_rank_size",
    "get_rank_id",
    "get_rank_size",
    "get_world_rank_from_group_rank",
]


def create_group(group: str, rank_num: int, rank_ids: Sequence[int]) -> None:
    """Make a group of the `rank_num` ranks of the world in rank_ids, whose places are their ranks in it.

    Each of them calls it, and nobody else; it blocks until all do, HCCL_CONNECT_TIMEOUT at most. Errors as of
    HcclCreateSubCommConfig.
    """
    named_groups.create(group, rank_num, list(rank_ids))


def destroy_group(group: str) -> None:
    """This rank uses the group no more. Waits for nobody."""
    named_groups.destroy(group)


def get_rank_size(group: str = WORLD_GROUP) -> int:
    """How many ranks a group has."""
    return find(group).size


def get_local_rank_size(group: str = WORLD_GROUP) -> int:
    """How many ranks of a group are on this rank's server; servers are those of a rank table, else there is one."""
    return len(_neighbours(find(group)))


def get_rank_id(group: str = WORLD_GROUP) -> int:
    """This process's rank in a group."""
    return find(group).rank


def get_local_rank_id(group: str = WORLD_GROUP) -> int:
    """This process's place among the ranks of a group on its server."""
    communicator = find(group)
    return _neighbours(communicator).index(communicator.rank)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """The rank in the world of a rank of a group."""
    communicator = find(group)
    if not 0 <= group_rank_id < communicator.size:
        text = f"group_rank_id={group_rank_id}; expected a rank of group {group!r}, 0 to {communicator.size - 1}"
        raise HcclError(HcclResult.HCCL_E_PARA, text)
    return communicator.world_ranks[group_rank_id]


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """The rank in a group of a rank of the world."""
    communicator = find(group)
    if world_rank_id not in communicator.world_ranks:
        text = f"world_rank_id={world_rank_id}; expected one of the ranks {communicator.world_ranks} of group {group!r}"
        raise HcclError(HcclResult.HCCL_E_PARA, text)
    return communicator.world_ranks.index(world_rank_id)


def _neighbours(communicator: Communicator) -> list[int]:
    """The ranks on this one's server."""
    own = communicator.servers[communicator.rank]
    return [rank for rank, server in enumerate(communicator.servers) if server == own]
