"""Making a communicator of some ranks of a job: each takes its place, the server tells them of one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..acl.memory import DeviceMemory
from ..diag import log
from ..link.errors import GroupError
from ..link.membership import Membership
from ..plan.collectives import COLLECTIVES
from ..settings import Settings
from . import choices, tuning
from .config import HcclCommConfig
from .errors import HcclError, HcclResult

if TYPE_CHECKING:
    from .communicator import Communicator

CODES = {
    "gone": (HcclResult.HCCL_E_REMOTE, ""),
    "differs": (HcclResult.HCCL_E_PARA, "EI0005"),
    "settings": (HcclResult.HCCL_E_PARA, "EI0016"),
    "refused": (HcclResult.HCCL_E_PARA, "EI0001"),
    "taken": (HcclResult.HCCL_E_PARA, "EI0015"),
    "room": (HcclResult.HCCL_E_MEMORY, "EI0007"),
    "late": (HcclResult.HCCL_E_TIMEOUT, "EI0006"),
    "unserved": (HcclResult.HCCL_E_UNAVAIL, ""),
    "left": (HcclResult.HCCL_E_UNAVAIL, ""),
    "fork": (HcclResult.HCCL_E_UNAVAIL, ""),
}


class Place(NamedTuple):
    """The place of a rank in a communicator that is to be made."""

    key: str
    """a word that its ranks have in common, and nobody else in the job at the time"""
    rank: int
    size: int
    members: tuple[int, ...] | None = None
    """its ranks in the job, if they are known"""
    servers: tuple[int, ...] = ()
    """number of the server by rank, if anything is known of servers"""


def form(membership: Membership, memory: DeviceMemory, settings: Settings, place: Place, name: str) -> Communicator:
    """A new communicator; blocks until all its ranks are here, HCCL_CONNECT_TIMEOUT at most. Compares their settings.

    HcclError: somebody has ended (HCCL_E_REMOTE) or does not come (HCCL_E_TIMEOUT), the ranks do not agree
    (HCCL_E_PARA), there are too many communicators (HCCL_E_MEMORY).
    """
    from .entry_log import communicator_class

    terms = "\n".join(f"{setting}={value}" for setting, value in settings.to_agree_on().items())
    try:
        group = membership.form_group(
            place.key,
            place.rank,
            place.size,
            members=place.members,
            terms=terms,
            offer=tuning.read(settings).for_ranks(place.size).to_text() if place.rank == 0 else "",
            timeout=settings.hccl_connect_timeout,
        )
    except GroupError as error:
        code, ei = CODES[error.why]
        ranks = error.ranks
        if error.why == "gone" and place.members is not None:
            ranks = tuple(place.members.index(rank) for rank in ranks)
        failed = HcclError(code, f'communicator "{name}": {error}', ranks, ei)
        log.write(log.ERROR, str(failed))
        raise failed from None
    communicator = communicator_class(settings)(membership, memory, settings, group, name)
    choices.settle(communicator, tuning.parse(group.offer), place.servers)
    return communicator


def split(
    parent: Communicator, color: int | None, key: int | None, config: HcclCommConfig | None = None
) -> Communicator | None:
    """See Communicator.split. config: beats the settings of the parent; all ranks have the same. SettingError (EI0016)
    for a value that is not allowed."""
    settings = parent._settings if config is None else config.apply(parent._settings)
    wrong = _objection(color, key)
    if wrong:
        parent._refuse(COLLECTIVES["all_gather"].number, f"split: {wrong}", None)
    mine = np.array([color is not None, color or 0, parent.rank if key is None else key], np.int64)
    rows = parent.all_gather(mine)
    parent._splits += 1
    if color is None:
        return None
    order = sorted((int(k), rank) for rank, (takes_part, c, k) in enumerate(rows) if takes_part and c == color)
    ranks = [rank for _, rank in order]
    place = Place(
        f"{parent._group.board}.split{parent._splits}.{color}",
        ranks.index(parent.rank),
        len(ranks),
        tuple(parent.world_ranks[rank] for rank in ranks),
        servers_of(parent, ranks),
    )
    name = (config.hcclCommName if config else "") or f"{parent.name}_sub_{parent._splits}_{color}"
    return form(parent._membership, parent._memory, settings, place, name)


def servers_of(parent: Communicator, ranks: Sequence[int]) -> tuple[int, ...]:
    """Numbers of servers by rank, for a communicator of some ranks of another; empty if nothing is known of servers."""
    if not parent._servers:
        return ()
    on = [parent.servers[rank] for rank in ranks]
    order = sorted(set(on), key=on.index)
    return tuple(order.index(server) for server in on)


def _objection(color: object, key: object) -> str:
    for name, value in (("color", color), ("key", key)):
        if value is not None and not (isinstance(value, int | np.integer) and -(2**63) <= int(value) < 2**63):
            return f"{name}={value!r}; expected an integer of 64 bits or None"
    return ""
