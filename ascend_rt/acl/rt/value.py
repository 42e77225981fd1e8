"""acl.rt: 64-bit words of device memory that streams write and wait for, of any device and any rank."""

from ... import settings as settings_module
from .. import device as local
from ..addresses import Range, device_range
from ..constants import ACL_STREAM_WAIT_VALUE_GEQ, ACL_STREAM_WAIT_VALUE_NOR
from ..errors import ACL_ERROR_RT_ADDR_UNALIGNED, AclError
from ..return_codes import integer, ranged, returns_code
from ..stream import Stream

WORD_NBYTES = 8
UINT64_MAX = (1 << 64) - 1


@returns_code
def value_write(address: int, value: int, flag: int, stream: int, /) -> None:
    """Queue storing a 64-bit word; who waits for it sees all that the stream has stored before. ret.

    107000: no 8 bytes of device memory there, value is no 64-bit number, flag is not 0; 107008: the address is no
    multiple of 8; 107017, 107003 for the stream.
    """
    queue = local.find_stream(integer("stream", stream))
    value = ranged("value", value, 0, UINT64_MAX)
    ranged("flag", flag, 0, 0)
    word = _word(address)
    queue.write_value(word.address, value, word.kept)


@returns_code
def value_wait(address: int, value: int, flag: int, stream: int, /) -> None:
    """What is queued on the stream from here on waits until the word there is >= value (flag 0), == value (1), has a
    bit of value (2), or lacks a bit that value lacks too (3: ~(word | value)). ret: as value_write.

    After HCCL_EXEC_TIMEOUT, or what set_op_wait_timeout set, the stream goes on and its synchronisation gives 107019.
    """
    queue = local.find_stream(integer("stream", stream))
    value = ranged("value", value, 0, UINT64_MAX)
    test = ranged("flag", flag, ACL_STREAM_WAIT_VALUE_GEQ, ACL_STREAM_WAIT_VALUE_NOR)
    word = _word(address)
    queue.wait_value(word.address, value, test, Stream.longest_wait_ns(settings_module.read()), word.kept)


def _word(address: int) -> Range:
    address = integer("address", address)
    if address % WORD_NBYTES:
        text = f"address={address:#x}; expected a multiple of {WORD_NBYTES}"
        raise AclError(ACL_ERROR_RT_ADDR_UNALIGNED, text)
    return device_range("address", address, WORD_NBYTES)
