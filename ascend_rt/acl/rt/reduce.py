"""acl.rt: folding memory into memory."""

from .. import device as local
from ..addresses import device_range, invalid
from ..constants import (
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
    ITEM_NBYTES,
    KERNEL_DTYPES,
    aclDataType,
)
from ..errors import ACL_ERROR_RT_FEATURE_NOT_SUPPORT, AclError
from ..return_codes import integer, ranged, returns_code
from .copy import check_peers

# HcclReduceOp, by which the kernels know them
OPS = {
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM: 0,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX: 2,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN: 3,
}


@returns_code
def reduce_async(dst: int, src: int, count: int, kind: int, dtype: int, stream: int, reserve: int, /) -> None:
    """Queue dst[i] = dst[i] kind src[i] on a stream, for `count` bytes of elements in device memory. ret.

    kind: sum (10), max (11) or min (12), with the bits of the collectives. dtype: an aclDataType with 8 to 64 bits,
    real. 107000: an address or count that is wrong, memory that overlaps but is not the same, no such kind, reserve is
    not 0; 207000: no kernel of this kind and dtype; 107017, 107003 for the stream.
    """
    queue = local.find_stream(integer("stream", stream))
    op, kernel_dtype, item_nbytes = _kernel(integer("kind", kind), integer("dtype", dtype))
    dst, src, count = integer("dst", dst), integer("src", src), integer("count", count)
    ranged("reserve", reserve, 0, 0)
    if count < 0 or count % item_nbytes:
        raise invalid(f"count={count} bytes; expected a multiple of the {item_nbytes} bytes of an element")
    to, source = device_range("dst", dst, count), device_range("src", src, count)
    check_peers(to, source)
    if dst != src and abs(dst - src) < count:
        raise invalid(f"dst={dst:#x} and src={src:#x} overlap in {count - abs(dst - src)} of {count} bytes")
    queue.reduce(dst, src, count // item_nbytes, kernel_dtype, op, (to.kept, source.kept))


def _kernel(kind: int, dtype: int) -> tuple[int, int, int]:
    if kind not in OPS and kind != ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL:
        raise invalid(f"kind={kind}; expected ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM (10), MAX (11) or MIN (12)")
    if kind not in OPS or dtype not in KERNEL_DTYPES:
        text = f"kind={kind}, dtype={dtype}; expected sum, max or min of integers or real floats of 8 to 64 bits"
        raise AclError(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, text)
    known = aclDataType(dtype)
    return OPS[kind], KERNEL_DTYPES[known], ITEM_NBYTES[known]
