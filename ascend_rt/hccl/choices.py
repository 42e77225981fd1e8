"""Chooses how a kind of call is done, and gives the native core what it needs to do it."""

import zlib

from ..core import _core
from ..plan.choice import Table, choose
from ..plan.packed import fingerprint, lent, pack
from ..plan.registry import build
from .arguments import Call

# What the board round can carry all by itself, in the lines: no plan, no peer's memory, any kind of own memory.
IN_LINE = frozenset({"all_reduce", "broadcast", "all_gather", "barrier"})
IN_LINE_FINGERPRINT = zlib.crc32(b"in line")


def add(communicator: _core.Communicator, call: Call, table: Table, piece_nbytes: int) -> None:
    """Adds the choice that serves `call` and all calls of its kind in the same range of sizes, as `table` has it.

    `piece_nbytes`, which decides the number of rounds where a rank stages, becomes part of what the ranks compare.
    """
    spec, size = call.spec, communicator.size
    root = call.root if spec.rooted else -1
    kind = (spec.number, call.dtype, call.op)
    if spec.name in IN_LINE and call.nbytes <= _core.PAYLOAD_NBYTES:
        communicator._add_choice(*kind, -1, 0, _core.PAYLOAD_NBYTES, IN_LINE_FINGERPRINT, None)
        return
    choice = choose(spec.name, size, call.nbytes, call.dtype, call.op, table)
    plan = build(spec.name, choice.algorithm, communicator.rank, size, call.root)
    least = max(choice.lo_nbytes, _core.PAYLOAD_NBYTES + 1) if spec.name in IN_LINE else choice.lo_nbytes
    compared = zlib.crc32(piece_nbytes.to_bytes(8, "little"), fingerprint(plan))
    communicator._add_choice(*kind, root, least, choice.hi_nbytes, compared, pack(plan), *lent(plan))
