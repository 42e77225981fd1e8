"""Chooses how a kind of call is done, and gives the native core what it needs to do it."""

import zlib

from ..core import _core
from ..plan.choice import UNBOUNDED, Table, choose
from ..plan.exchange import exchange
from ..plan.packed import fingerprint, lent, pack
from ..plan.registry import build
from ..plan.split import ALGORITHM, NUMBERS, SPLIT
from .arguments import Call

_EXCHANGE_FINGERPRINT = zlib.crc32(b"exchange")


def add(communicator: _core.Communicator, call: Call, table: Table, packet_nbytes: int, piece_nbytes: int) -> None:
    """Adds the choice that serves `call` and all calls of its kind in the same range of sizes.

    Up to `packet_nbytes` of a rank's data go with the round itself, beyond that `table` has the algorithm.
    `piece_nbytes`, which decides the number of rounds where a rank stages, becomes part of what the ranks compare.
    """
    spec, size = call.spec, communicator.size
    root = call.root if spec.rooted else -1
    kind = (spec.number, call.dtype, call.op, root)
    words = exchange(spec.name, communicator.rank, size, call.root)
    most_in_round = packet_nbytes // max(words[0], 1)
    if call.nbytes <= most_in_round:
        communicator._add_exchange(*kind, most_in_round, _EXCHANGE_FINGERPRINT, words)
        return
    choice = choose(spec.name, size, call.nbytes, call.dtype, call.op, table)
    plan = build(spec.name, choice.algorithm, communicator.rank, size, call.root)
    least = max(choice.lo_nbytes, most_in_round + 1)
    compared = zlib.crc32(piece_nbytes.to_bytes(8, "little"), fingerprint(plan))
    communicator._add_plan(*kind, least, choice.hi_nbytes, compared, pack(plan), *lent(plan))


def add_split(communicator: _core.Communicator, name: str, dtype: int, op: int, piece_nbytes: int) -> None:
    """Adds the plan of a collective whose blocks differ in count, for all of its sizes."""
    plan = build(SPLIT[name], ALGORITHM, communicator.rank, communicator.size)
    compared = zlib.crc32(piece_nbytes.to_bytes(8, "little"), fingerprint(plan))
    communicator._add_plan(NUMBERS[name], dtype, op, -1, 0, UNBOUNDED, compared, pack(plan), *lent(plan))
