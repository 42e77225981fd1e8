"""Which algorithm runs: a table that can be printed and replaced.

The first row that fits a call decides. A row says for which collective, numbers of ranks, sizes, types and ops it
stands, who asked for it, and what was predicted and measured there.

Some rows are passed over, since algorithms that fold partial sums round once per hop (`single_fold` tells which fold
once). Sums and products of float16 and bfloat16 take such an algorithm only where somebody asked for it; averages
never, since a partial average is wrong; and nothing does when results are to be strictly the same
(HCCL_DETERMINISTIC=strict).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .collectives import COLLECTIVES
from .language import Groups, Option
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
    options       what the algorithm is built with: for several servers, the ranks of each
    asked_by      the variable that asks for it; empty if none does
    at_nbytes     at how many bytes per block the times were taken
    predicted_us  time of the call in microseconds by the model (plan/model.py)
    measured_us   the same as measured
    """

    collective: str
    algorithm: str
    ranks: tuple[int, int] = (1, UNBOUNDED)
    nbytes: tuple[int, int] = (0, UNBOUNDED)
    dtypes: frozenset[int] | None = None
    ops: frozenset[int] | None = None
    options: tuple[tuple[str, Option], ...] = ()
    asked_by: str = ""
    at_nbytes: int | None = None
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

    row: Row
    lo_nbytes: int
    hi_nbytes: int

    @property
    def algorithm(self) -> str:
        return self.row.algorithm

    @property
    def options(self) -> dict[str, Option]:
        return dict(self.row.options)


def choose(
    collective: str, size: int, nbytes: int, dtype: int, op: int = 0, table: Table = TABLE, *, strict: bool = False
) -> Choice:
    """Choose the algorithm of a collective among `size` ranks with blocks of `nbytes` bytes.

    `dtype` is a HcclDataType, `op` a HcclReduceOp or 4 for avg (of no meaning where nothing is reduced); `strict` as in
    HCCL_DETERMINISTIC. All ranks must use the same table. ValueError if no row fits, or the row names an algorithm that
    does not exist.
    """
    lo, hi = 0, UNBOUNDED
    for row in table:
        if not row.fits(collective, size, dtype, op) or passed_over(row, size, dtype, op, strict=strict):
            continue
        first, last = row.nbytes
        if first <= nbytes <= last:
            return Choice(row, max(lo, first), min(hi, last))
        if nbytes < first:
            hi = min(hi, first - 1)
        else:
            lo = max(lo, last + 1)
    raise ValueError(
        f"{collective}, {size} ranks, {nbytes} bytes of {DTYPES[dtype]}, {OPS[op]}: no row of the table of choice fits,"
        f" or folds once where it must: end it with a row for all sizes, such as Row({collective!r}, 'mesh')"
    )


def passed_over(row: Row, size: int, dtype: int, op: int, *, strict: bool = False) -> str:
    """Why a row that fits a call is not taken; empty if it is. ValueError for an algorithm that does not exist."""
    function(row.collective, row.algorithm)
    if not COLLECTIVES[row.collective].reduces:
        return ""
    if strict:
        why = "HCCL_DETERMINISTIC=strict folds all contributions at once"
    elif op == _AVG:
        why = "an average of partial averages is wrong"
    elif not row.asked_by and op in _ROUNDING and dtype in _HALVES:
        why = f"rounds a {OPS[op]} of {DTYPES[dtype]} once per hop, and nobody asked for it"
    else:
        return ""
    return "" if single_fold(row.collective, row.algorithm, size, **dict(row.options)) else why


def render(table: Table = TABLE) -> str:
    """The table, to be read by people."""
    head = ("collective", "ranks", "bytes per block", "types", "ops", "algorithm", "by", "predicted us", "measured us")
    lines = [head, *(_words(row) for row in table)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def reason(row: Row) -> str:
    """Who has decided for a row: the variable that asks for it, a measurement, a prediction over links, or nobody."""
    if row.asked_by or row.measured_us is not None:
        return row.asked_by or "measured"
    return "default" if row.predicted_us is None else "emulated links"


def servers_in_words(groups: Groups) -> str:
    """How ranks are spread over servers: "2 x 4", or "3 + 5"."""
    counts = [len(group) for group in groups]
    return f"{len(counts)} x {counts[0]}" if len(set(counts)) == 1 else " + ".join(map(str, counts))


def _words(row: Row) -> tuple[str, ...]:
    at = "" if row.at_nbytes is None else f" at {row.at_nbytes}"
    times = ("-" if time is None else f"{time:.1f}{at}" for time in (row.predicted_us, row.measured_us))
    types, ops = _names(row.dtypes, DTYPES), _names(row.ops, OPS)
    servers = [servers_in_words(value) for _, value in row.options if not isinstance(value, int)]
    ranks = " as ".join([_range(row.ranks), *servers])
    return (row.collective, ranks, _range(row.nbytes), types, ops, row.algorithm, reason(row), *times)


def _range(ends: tuple[int, int]) -> str:
    if ends[0] == ends[1]:
        return str(ends[0])
    return f"{ends[0]}.." + ("" if ends[1] == UNBOUNDED else str(ends[1]))


def _names(numbers: frozenset[int] | None, names: Sequence[str]) -> str:
    return "all" if numbers is None else ",".join(names[number] for number in sorted(numbers))
