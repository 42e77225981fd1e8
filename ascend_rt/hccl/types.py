"""HCCL's enums, and which NumPy dtype each HcclDataType is."""

from enum import IntEnum

import numpy as np

from ..acl.constants import aclDataType


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
    HCCL_DATA_TYPE_FP8E4M3 = 15
    HCCL_DATA_TYPE_FP8E5M2 = 16


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
"""The types that NumPy has of itself. The others come from ml_dtypes, whose import takes longer than that of NumPy."""

NUMBER_OF_ML_DTYPE = {
    "bfloat16": HcclDataType.HCCL_DATA_TYPE_BFP16,
    "float8_e4m3fn": HcclDataType.HCCL_DATA_TYPE_FP8E4M3,
    "float8_e5m2": HcclDataType.HCCL_DATA_TYPE_FP8E5M2,
}
"""Types of ml_dtypes by name. HCCL's FP8E4M3 is the one of the OCP, which has NaN and no infinity."""

DTYPE_NAMES = {int(number): dtype.name for dtype, number in NUMBER_OF_DTYPE.items()} | {
    int(number): name for name, number in NUMBER_OF_ML_DTYPE.items()
}
DATA_TYPE_OF_ACL = {
    aclDataType.ACL_FLOAT: HcclDataType.HCCL_DATA_TYPE_FP32,
    aclDataType.ACL_FLOAT16: HcclDataType.HCCL_DATA_TYPE_FP16,
    aclDataType.ACL_INT8: HcclDataType.HCCL_DATA_TYPE_INT8,
    aclDataType.ACL_INT32: HcclDataType.HCCL_DATA_TYPE_INT32,
    aclDataType.ACL_UINT8: HcclDataType.HCCL_DATA_TYPE_UINT8,
    aclDataType.ACL_INT16: HcclDataType.HCCL_DATA_TYPE_INT16,
    aclDataType.ACL_UINT16: HcclDataType.HCCL_DATA_TYPE_UINT16,
    aclDataType.ACL_UINT32: HcclDataType.HCCL_DATA_TYPE_UINT32,
    aclDataType.ACL_INT64: HcclDataType.HCCL_DATA_TYPE_INT64,
    aclDataType.ACL_UINT64: HcclDataType.HCCL_DATA_TYPE_UINT64,
    aclDataType.ACL_DOUBLE: HcclDataType.HCCL_DATA_TYPE_FP64,
    aclDataType.ACL_BF16: HcclDataType.HCCL_DATA_TYPE_BFP16,
    aclDataType.ACL_FLOAT8_E4M3FN: HcclDataType.HCCL_DATA_TYPE_FP8E4M3,
    aclDataType.ACL_FLOAT8_E5M2: HcclDataType.HCCL_DATA_TYPE_FP8E5M2,
}


def dtype_name(number: int) -> str:
    """The name that NumPy has for a HcclDataType; the number itself where there is none such."""
    return DTYPE_NAMES.get(number, str(number))


def number_of_dtype(dtype: np.dtype[np.generic]) -> int | None:
    """The HcclDataType of a NumPy dtype in native byte order; None if HCCL does not know it."""
    number = NUMBER_OF_DTYPE.get(dtype)
    if number is None:
        number = NUMBER_OF_ML_DTYPE.get(dtype.name)
    return number if dtype.isnative else None


def dtype_of_number(number: int) -> np.dtype[np.generic]:
    """The NumPy dtype of an HcclDataType. KeyError if there is none."""
    if number in NUMBER_OF_ML_DTYPE.values():
        import ml_dtypes

        dtype: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, DTYPE_NAMES[number]))
        return dtype
    return {known: dtype for dtype, known in NUMBER_OF_DTYPE.items()}[number]


OPS: dict[str, HcclReduceOp] = {
    "sum": HcclReduceOp.HCCL_REDUCE_SUM,
    "prod": HcclReduceOp.HCCL_REDUCE_PROD,
    "max": HcclReduceOp.HCCL_REDUCE_MAX,
    "min": HcclReduceOp.HCCL_REDUCE_MIN,
    "avg": HcclReduceOp.HCCL_REDUCE_AVG,
}
OP_NAMES = {int(number): name for name, number in OPS.items()}
