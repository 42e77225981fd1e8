"""Which element types collectives take: what the core can do, and what each generation of devices does less.

A program that is tested here must not fail there: with ASCEND_RT_STRICT_DTYPES a call that the named generation refuses
is refused here, too. The generations are those of HCCL's pages of its operators: 910 (Atlas training), 910B (Atlas A2),
910_93 (Atlas A3) and 950. avg, which HCCL has not, counts as the sum by which programs do it there.
"""

from dataclasses import dataclass

from ..plan.collectives import COLLECTIVES
from ..plan.split import SPLIT
from .arguments import RefusedError
from .errors import HcclResult
from .types import OP_NAMES, HcclDataType, dtype_name

INT16, UINT64, FP64, BFP16, INT64 = (
    HcclDataType.HCCL_DATA_TYPE_INT16,
    HcclDataType.HCCL_DATA_TYPE_UINT64,
    HcclDataType.HCCL_DATA_TYPE_FP64,
    HcclDataType.HCCL_DATA_TYPE_BFP16,
    HcclDataType.HCCL_DATA_TYPE_INT64,
)
FP8 = frozenset({HcclDataType.HCCL_DATA_TYPE_FP8E4M3, HcclDataType.HCCL_DATA_TYPE_FP8E5M2})
REDUCIBLE = frozenset(HcclDataType) - FP8
"""Types that the core folds; the others it only moves."""


@dataclass(frozen=True)
class Generation:
    """What one generation of devices takes."""

    reduced: frozenset[HcclDataType]
    moved: frozenset[HcclDataType]
    without_prod: frozenset[HcclDataType] = frozenset()
    has_v: bool = True
    """whether it has all_gather_v and reduce_scatter_v"""


_FIRST = frozenset(
    {
        HcclDataType.HCCL_DATA_TYPE_INT8,
        HcclDataType.HCCL_DATA_TYPE_INT32,
        HcclDataType.HCCL_DATA_TYPE_FP16,
        HcclDataType.HCCL_DATA_TYPE_FP32,
        INT64,
    }
)
_A2 = Generation(_FIRST | {INT16, BFP16}, REDUCIBLE, frozenset({INT16, BFP16}))
GENERATIONS = {
    "910": Generation(_FIRST, REDUCIBLE - {BFP16}, has_v=False),
    "910B": _A2,
    "910_93": _A2,
    "950": Generation(_A2.reduced | {UINT64, FP64}, REDUCIBLE | FP8, _A2.without_prod),
}
DEFAULT_GENERATION = "910B"


def check_dtype(collective: str, dtype: int, op: int, strict: str) -> None:
    """RefusedError (HCCL_E_NOT_SUPPORT) for elements that `collective` does not take.

    collective: the name of a method; dtype: a HcclDataType; op: a HcclReduceOp, or 4 for avg; strict: the value of
    ASCEND_RT_STRICT_DTYPES.
    """
    spec = COLLECTIVES.get(SPLIT.get(collective, collective))
    reduces = spec is not None and spec.reduces
    if reduces and dtype not in REDUCIBLE:
        _refuse(collective, dtype, op, reduces, "no rank folds it: convert it to float16 or float32 to reduce it")
    if strict != "0":
        name = DEFAULT_GENERATION if strict == "1" else strict
        _check_generation(name, collective, HcclDataType(dtype), op, reduces)


def _check_generation(name: str, collective: str, dtype: HcclDataType, op: int, reduces: bool) -> None:
    device = GENERATIONS[name]
    varying = collective in ("all_gather_v", "reduce_scatter_v")
    takes = device.reduced if reduces else device.moved
    prod = reduces and OP_NAMES[op] == "prod"
    if varying and not device.has_v:
        _refuse(collective, dtype, op, reduces, f"a device {name} has no {collective}")
    if collective == "reduce_scatter_v" and (prod or dtype == INT64):
        _refuse(collective, dtype, op, reduces, f"a device {name} has it neither for int64 nor with prod")
    if dtype not in takes:
        names = ", ".join(dtype_name(number) for number in sorted(takes))
        _refuse(collective, dtype, op, reduces, f"a device {name} takes {names}")
    if prod and dtype in device.without_prod:
        _refuse(collective, dtype, op, reduces, f"a device {name} has no prod of {dtype_name(dtype)}")


def _refuse(collective: str, dtype: int, op: int, reduces: bool, why: str) -> None:
    what = f"{collective} dtype={dtype_name(dtype)}" + (f" op={OP_NAMES[op]}" if reduces else "")
    rule = " (ASCEND_RT_STRICT_DTYPES)" if why.startswith("a device") else ""
    raise RefusedError(f"{what} is not supported: {why}{rule}", HcclResult.HCCL_E_NOT_SUPPORT)
