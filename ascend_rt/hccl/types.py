"""HCCL's enums, and which NumPy dtype each HcclDataType is."""

from enum import IntEnum

import ml_dtypes
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


DTYPES: dict[HcclDataType, np.dtype[np.generic]] = {
    HcclDataType.HCCL_DATA_TYPE_INT8: np.dtype(np.int8),
    HcclDataType.HCCL_DATA_TYPE_INT16: np.dtype(np.int16),
    HcclDataType.HCCL_DATA_TYPE_INT32: np.dtype(np.int32),
    HcclDataType.HCCL_DATA_TYPE_FP16: np.dtype(np.float16),
    HcclDataType.HCCL_DATA_TYPE_FP32: np.dtype(np.float32),
    HcclDataType.HCCL_DATA_TYPE_INT64: np.dtype(np.int64),
    HcclDataType.HCCL_DATA_TYPE_UINT64: np.dtype(np.uint64),
    HcclDataType.HCCL_DATA_TYPE_UINT8: np.dtype(np.uint8),
    HcclDataType.HCCL_DATA_TYPE_UINT16: np.dtype(np.uint16),
    HcclDataType.HCCL_DATA_TYPE_UINT32: np.dtype(np.uint32),
    HcclDataType.HCCL_DATA_TYPE_FP64: np.dtype(np.float64),
    HcclDataType.HCCL_DATA_TYPE_BFP16: np.dtype(ml_dtypes.bfloat16),
}
NUMBER_OF_DTYPE: dict[np.dtype[np.generic], int] = {dtype: int(number) for number, dtype in DTYPES.items()}

OPS: dict[str, HcclReduceOp] = {
    "sum": HcclReduceOp.HCCL_REDUCE_SUM,
    "prod": HcclReduceOp.HCCL_REDUCE_PROD,
    "max": HcclReduceOp.HCCL_REDUCE_MAX,
    "min": HcclReduceOp.HCCL_REDUCE_MIN,
    "avg": HcclReduceOp.HCCL_REDUCE_AVG,
}
OP_NAMES = {int(number): name for name, number in OPS.items()}
