"""What ranks have said of a call, from the numbers of the core to the words of `diag`."""

from collections.abc import Sequence

from ..core import _core
from ..diag import disagreement
from ..diag.vocabulary import collective_name
from ..plan import split
from ..plan.collectives import COLLECTIVES
from ..plan.split import split_spec
from .arguments import code_of_refusal
from .errors import HcclResult
from .transfers import TRANSFERS
from .types import OP_NAMES, dtype_name

SPECS = {spec.number: spec for spec in COLLECTIVES.values()}
BARRIER = COLLECTIVES["barrier"]
"""With a root it is that of ranks that launch a graph: its identity is the root."""
SPLITS = {number: split_spec(name) for name, number in split.NUMBERS.items()}


def code_of(statements: Sequence[disagreement.Statement]) -> HcclResult:
    """The code of what all ranks raise: the first refusal's."""
    refusals = [said.refusal for said in statements if said.refusal is not None]
    return code_of_refusal(refusals[0]) if refusals else HcclResult.HCCL_E_PARA


def statement(
    rank: int,
    call: int,
    collective: int,
    dtype: int,
    op: int,
    flags: int,
    root: int,
    fingerprint: int,
    count: int,
    note: str,
    where: str,
) -> disagreement.Statement:
    """As `diag` words it: what a rank said of its call, as the core tells it."""
    spec = SPECS.get(collective) or SPLITS.get(collective)
    refused = bool(flags & _core.LINE_REFUSED)
    transfer = collective in TRANSFERS.values()
    is_launch = spec is BARRIER and root > 0
    carries_data = transfer or (spec is not None and spec is not BARRIER)
    return disagreement.Statement(
        rank=rank,
        call=call,
        collective="launch" if is_launch else collective_name(collective),
        count=count if collective not in SPLITS else None,
        dtype=dtype_name(dtype) if carries_data and not refused else "",
        op=OP_NAMES[op] if spec is not None and spec.reduces else None,
        root=root if transfer or (spec is not None and spec.rooted) else None,
        fingerprint=fingerprint,
        refusal=note if refused else None,
        where=where,
        graph=root if is_launch else None,
    )
