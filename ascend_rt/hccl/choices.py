"""Chooses how a kind of call is done, and gives the native core what it needs to do it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..plan.asked import OPERATORS, between_servers, by_own_name
from ..plan.choice import TABLE, UNBOUNDED, Choice, Row, Table, choose, passed_over
from ..plan.exchange import exchange
from ..plan.linked import fastest
from ..plan.packed import fingerprint, lent, pack
from ..plan.registry import build, names, parameters
from ..plan.split import ALGORITHM, NUMBERS, SPLIT
from ..settings import SettingError, Settings
from .arguments import Call

if TYPE_CHECKING:
    from ..core import _core
    from ..plan.language import Groups
    from ..plan.linked import Wires
    from ..plan.model import Machine
    from .communicator import Communicator
    from .tuning import Tuning

_EXCHANGE_FINGERPRINT = zlib.crc32(b"exchange")


def settle(communicator: Communicator, tuning: Tuning, servers: Sequence[int]) -> None:
    """How a new communicator chooses; servers: the server of each rank, empty if nothing is known of servers."""
    communicator.servers = tuple(servers) or (0,) * communicator.size
    communicator._servers = groups_of(servers)
    communicator._machine = tuning.machine
    communicator._wires = _wires(communicator)
    measured = () if communicator._wires else tuning.rows  # without links
    communicator._table = table_of(communicator._settings, communicator.size, communicator._servers, measured)


def machine_of(communicator: Communicator) -> Machine:
    """What its calls are predicted to take on this host."""
    return communicator._machine


def check_names(settings: Settings) -> None:
    """SettingError (EI0001) if ASCEND_RT_ALGO names a collective or an algorithm that does not exist."""
    list(_by_own_names(settings, ()))


def table_of(settings: Settings, size: int, servers: Groups, measured: Table) -> Table:
    """The table of choice of a communicator: what its variables ask for, what was measured, the default.

    servers: the ranks of each, empty if nothing is known of them. What is asked for and does not take these servers is
    left out. SettingError as of `check_names`.
    """
    return (*_by_own_names(settings, servers), *_by_level(settings, size, servers), *measured, *TABLE)


def groups_of(servers: Sequence[int]) -> Groups:
    """The ranks of each server, from the number of the server of each rank."""
    return tuple(tuple(rank for rank, on in enumerate(servers) if on == server) for server in sorted(set(servers)))


def _by_own_names(settings: Settings, servers: Groups) -> Iterator[Row]:
    asked = settings.ascend_rt_algo
    for collective, algorithm in asked.by_collective if asked else ():
        try:
            found = by_own_name(collective, algorithm, servers)
        except ValueError as error:
            expected = f"collectives and algorithms that there are: {error}"
            raise SettingError("ASCEND_RT_ALGO", repr(str(asked)), expected) from None
        if found:
            yield Row(collective, found[0], options=found[1], asked_by="ASCEND_RT_ALGO")


def _by_level(settings: Settings, size: int, servers: Groups) -> Iterator[Row]:
    asked = settings.hccl_algo
    for operator, collective in OPERATORS.items():
        level1 = asked.of(operator, "level1") if asked else None
        if level1 and (found := between_servers(collective, level1, size, servers)):
            yield Row(collective, found[0], options=found[1], asked_by=f"HCCL_ALGO level1:{level1}")


def _wires(communicator: Communicator) -> Wires:
    """The emulated links between its ranks; empty if there are none."""
    links, members = communicator._settings.ascend_rt_link, communicator.world_ranks
    found = () if links is None else tuple(links.costs(rank, members) for rank in members)
    return found if any(ns_per_byte for row in found for ns_per_byte, _ in row) else ()


def choice_for(
    communicator: Communicator, collective: str, nbytes: int, dtype: int, op: int = 0, root: int = 0
) -> Choice:
    """The algorithm of a call with blocks of `nbytes` bytes; all ranks of the communicator find the same.

    The communicator's table has it. Over emulated links, where no variable has asked for one, it is that which is
    predicted to be the fastest (plan/linked.py).
    """
    table, strict, size = communicator._table, communicator._strict, communicator.size
    choice = choose(collective, size, nbytes, dtype, op, table, strict=strict)
    if not communicator._wires or choice.row.asked_by:
        return choice
    rows = [row for row in candidates(communicator, choice.row) if not passed_over(row, size, dtype, op, strict=strict)]
    return fastest(communicator._machine, communicator._wires, rows, nbytes, root)


def candidates(communicator: Communicator, chosen: Row) -> Iterator[Row]:
    """The row that is chosen, and one for every other algorithm that is for these ranks."""
    yield chosen
    servers = communicator._servers
    for algorithm in names(chosen.collective):
        spread = "servers" in parameters(chosen.collective, algorithm)
        if algorithm == chosen.algorithm or (spread and len(servers) < 2):
            continue  # on one server they are the mesh
        if found := by_own_name(chosen.collective, algorithm, servers):
            yield Row(chosen.collective, found[0], options=found[1])


def add(communicator: Communicator, call: Call) -> None:
    """Adds the choice that serves `call` and all calls of its kind in the same range of sizes.

    Up to ASCEND_RT_PACKET_BYTES of a rank's data go with the round itself, beyond that `choice_for` has the algorithm.
    The size of a piece, which decides the number of rounds where a rank stages, becomes part of what the
    ranks compare.
    """
    spec, size = call.spec, communicator.size
    root = call.root if spec.rooted else -1
    kind = (spec.number, call.dtype, call.op, root)
    most_in_round = most_in_a_round(communicator, spec.name)
    if call.nbytes <= most_in_round:
        words = exchange(spec.name, communicator.rank, size, call.root)
        communicator._add_exchange(*kind, most_in_round, _EXCHANGE_FINGERPRINT, words)
        return
    choice = choice_for(communicator, spec.name, call.nbytes, call.dtype, call.op, max(root, 0))
    plan = build(spec.name, choice.algorithm, communicator.rank, size, call.root, **choice.options)
    least = max(choice.lo_nbytes, most_in_round + 1)
    compared = zlib.crc32(communicator._piece_nbytes.to_bytes(8, "little"), fingerprint(plan))
    communicator._add_plan(*kind, least, choice.hi_nbytes, compared, pack(plan), *lent(plan))


def most_in_a_round(communicator: Communicator, collective: str) -> int:
    """The largest block, in bytes, of calls that are carried out within the round in which the ranks meet."""
    blocks, *_ = exchange(collective, communicator.rank, communicator.size, 0)
    return communicator._packet_nbytes // max(blocks, 1)


def add_split(communicator: _core.Communicator, name: str, dtype: int, op: int, piece_nbytes: int) -> None:
    """Adds the plan of a collective whose blocks differ in count, for all of its sizes."""
    plan = build(SPLIT[name], ALGORITHM, communicator.rank, communicator.size)
    compared = zlib.crc32(piece_nbytes.to_bytes(8, "little"), fingerprint(plan))
    communicator._add_plan(NUMBERS[name], dtype, op, -1, 0, UNBOUNDED, compared, pack(plan), *lent(plan))
