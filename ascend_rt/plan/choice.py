"""Which algorithm runs: a table that can be printed and replaced.

The first row that fits a call decides. A row says for which collective, numbers of ranks, sizes, types and ops it
stands, and what was predicted and measured there. One thing no table can do: algorithms that fold partial sums round
once per hop, so float16 and bfloat16 sums and products, and every average, only take algorithms that fold once
(`single_fold`); rows with others are passed over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .collectives import COLLECTIVES
from .packed import single_fold
from .registry import function

DTYPES = (
    *("int8", "int16", "int32", "float16", "float32", "int64"),
    *("uint64", "uint8", "uint16", "uint32", "float64", "bfloat16"),
)
"""Names of the types; the index is the HcclDataType."""

OPS = ("sum", "prod", "max", "min", "avg")
"""Names of the reduce ops; the index is the HcclReduceOp, and 4 is ours."""

UNBOUNDED = 2**63 - 1

_HALVES = {DTYPES.index("float16"), DTYPES.index("bfloat16")}
_ROUNDING = {OPS.index("sum"), OPS.index("prod")}
_AVG = OPS.index("avg")


@dataclass(frozen=True)
class Row:
    """One row of a table of choice. Ranges include both ends; None for types or ops means all.

    nbytes        bytes of one block: count times the size of an element
    predicted_us  time of the call in microseconds by the simulator, at the upper end of `nbytes`
    measured_us   the same as measured
    """

    collective: str
    algorithm: str
    ranks: tuple[int, int] = (1, UNBOUNDED)
    nbytes: tuple[int, int] = (0, UNBOUNDED)
    dtypes: frozenset[int] | None = None
    ops: frozenset[int] | None = None
    predicted_us: float | None = None
    measured_us: float | None = None

    def fits(self, collective: str, size: int, dtype: int, op: int) -> bool:
        """Whether the row stands for such calls, of some size in bytes."""
        return (
            self.collective == collective
            and self.ranks[0] <= size <= self.ranks[1]
            and (self.dtypes is None or dtype in self.dtypes)
            and (self.ops is None or op in self.ops)
        )


Table = Sequence[Row]

TABLE: Table = tuple(Row(name, "mesh") for name in COLLECTIVES)
"""Shared memory is as near for all: the mesh everywhere."""


class Choice(NamedTuple):
    """The algorithm for a call, and the range of bytes per block (both ends included) in which it stays the same."""

    algorithm: str
    lo_nbytes: int
    hi_nbytes: int


def choose(collective: str, size: int, nbytes: int, dtype: int, op: int = 0, table: Table = TABLE) -> Choice:
    """Choose the algorithm of a collective among `size` ranks with blocks of `nbytes` bytes.

    `dtype` is a HcclDataType, `op` a HcclReduceOp or 4 for avg (of no meaning where nothing is reduced). All ranks must
    use the same table. ValueError if no row fits, or the row names an algorithm that does not exist.
    """
    once = must_fold_once(collective, dtype, op)
    lo, hi = 0, UNBOUNDED
    for row in table:
        if not row.fits(collective, size, dtype, op):
            continue
        function(collective, row.algorithm)  # exists, whether it is taken now or not
        if once and not single_fold(collective, row.algorithm, size):
            continue
        first, last = row.nbytes
        if first <= nbytes <= last:
            return Choice(row.algorithm, max(lo, first), min(hi, last))
        if nbytes < first:
            hi = min(hi, first - 1)
        else:
            lo = max(lo, last + 1)
    raise ValueError(
        f"{collective}, {size} ranks, {nbytes} bytes of {DTYPES[dtype]}, {OPS[op]}: no row of the table of choice fits"
        f"{' and folds once' if once else ''}: end it with a row for all sizes, such as Row({collective!r}, 'mesh')"
    )


def must_fold_once(collective: str, dtype: int, op: int) -> bool:
    """Whether folding partial results would change what the caller gets: rounding once per hop, or a wrong average."""
    return COLLECTIVES[collective].reduces and (op == _AVG or (op in _ROUNDING and dtype in _HALVES))


def render(table: Table = TABLE) -> str:
    """The table, to be read by people."""
    head = ("collective", "ranks", "bytes per block", "types", "ops", "algorithm", "predicted us", "measured us")
    lines = [head, *(_words(row) for row in table)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _words(row: Row) -> tuple[str, ...]:
    times = ("-" if time is None else f"{time:.1f}" for time in (row.predicted_us, row.measured_us))
    types, ops = _names(row.dtypes, DTYPES), _names(row.ops, OPS)
    return (row.collective, _range(row.ranks), _range(row.nbytes), types, ops, row.algorithm, *times)


def _range(ends: tuple[int, int]) -> str:
    return f"{ends[0]}.." + ("" if ends[1] == UNBOUNDED else str(ends[1]))


def _names(numbers: frozenset[int] | None, names: Sequence[str]) -> str:
    return "all" if numbers is None else ",".join(names[number] for number in sorted(numbers))
