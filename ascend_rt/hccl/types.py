"""HCCL's enums, and which NumPy dtype each HcclDataType is."""

from enum import IntEnum

import numpy as np


class HcclDataType(IntEnum):
    """Element types, with the numbers of hccl_types.h (aclDataType has others)."""

    HCCL_DATA_TYPE_INT8 = 0
    HCCL_DATA_TYPE_INT16 = 1
    HCCL_DATA_TYPE_INT32 = 2
    HCCL_DATA_TYPE_FP16 = 3
    HCCL_DATA_TYPE_FP32 = 4
    HCCL_DATA_TYPE_INT64 = 5
    HCCL_DATA_TYPE_UINT64 = 6
    HCCL_DATA_TYPE_UINT8 = 7
    HCCL_DATA_TYPE_UINT16 = 8
    HCCL_DATA_TYPE_UINT32 = 9
    HCCL_DATA_TYPE_FP64 = 10
    HCCL_DATA_TYPE_BFP16 = 11


class HcclReduceOp(IntEnum):
    """Reduce operations, with the numbers of hccl_types.h; AVG is ours, HCCL has none."""

    HCCL_REDUCE_SUM = 0
    HCCL_REDUCE_PROD = 1
    HCCL_REDUCE_MAX = 2
    HCCL_REDUCE_MIN = 3
    HCCL_REDUCE_AVG = 4


NUMBER_OF_DTYPE: dict[np.dtype[np.generic], int] = {
    np.dtype(np.int8): HcclDataType.HCCL_DATA_TYPE_INT8,
    np.dtype(np.int16): HcclDataType.HCCL_DATA_TYPE_INT16,
    np.dtype(np.int32): HcclDataType.HCCL_DATA_TYPE_INT32,
    np.dtype(np.float16): HcclDataType.HCCL_DATA_TYPE_FP16,
    np.dtype(np.float32): HcclDataType.HCCL_DATA_TYPE_FP32,
    np.dtype(np.int64): HcclDataType.HCCL_DATA_TYPE_INT64,
    np.dtype(np.uint64): HcclDataType.HCCL_DATA_TYPE_UINT64,
    np.dtype(np.uint8): HcclDataType.HCCL_DATA_TYPE_UINT8,
    np.dtype(np.uint16): HcclDataType.HCCL_DATA_TYPE_UINT16,
    np.dtype(np.uint32): HcclDataType.HCCL_DATA_TYPE_UINT32,
    np.dtype(np.float64): HcclDataType.HCCL_DATA_TYPE_FP64,
}
"""The types that NumPy has of itself. bfloat16 comes from ml_dtypes, whose import takes longer than that of NumPy."""


def number_of_dtype(dtype: np.dtype[np.generic]) -> int | None:
    """The HcclDataType of a NumPy dtype in native byte order; None if HCCL does not know it."""
    number = NUMBER_OF_DTYPE.get(dtype)
    if number is None and dtype.name == "bfloat16":
        return HcclDataType.HCCL_DATA_TYPE_BFP16
    return number if dtype.isnative else None


def dtype_of_number(number: int) -> np.dtype[np.generic]:
    """The NumPy dtype of an HcclDataType. KeyError if there is none."""
    if number == HcclDataType.HCCL_DATA_TYPE_BFP16:
        import ml_dtypes

        bfloat16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return {known: dtype for dtype, known in NUMBER_OF_DTYPE.items()}[number]


OPS: dict[str, HcclReduceOp] = {
    "sum": HcclReduceOp.HCCL_REDUCE_SUM,
    "prod": HcclReduceOp.HCCL_REDUCE_PROD,
    "max": HcclReduceOp.HCCL_REDUCE_MAX,
    "min": HcclReduceOp.HCCL_REDUCE_MIN,
    "avg": HcclReduceOp.HCCL_REDUCE_AVG,
}
OP_NAMES = {int(number): name for name, number in OPS.items()}
