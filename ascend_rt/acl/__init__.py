"""The device runtime: streams, events and device memory, and pyACL's functions over them.

    from ascend_rt import acl                     stream, ret = acl.rt.create_stream()

acl.rt          device, context, stream, event, memory: integers and return codes
acl.util        addresses of arrays, and arrays over addresses
acl.ACL_...     constants and error codes under their C names
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from . import constants, errors, rt
from . import host_pointers as util
from .constants import *  # noqa: F403  it lists its names
from .errors import *  # noqa: F403
from .event import Event
from .return_codes import get_recent_err_msg
from .stream import Stream
from .system import (
    data_type_size,
    finalize,
    finalize_reference,
    get_cann_version,
    get_soc_name,
    get_version,
    init,
)

__all__ = [
    "Event",
    "Stream",
    "data_type_size",
    "finalize",
    "finalize_reference",
    "get_cann_version",
    "get_recent_err_msg",
    "get_soc_name",
    "get_version",
    "init",
    "rt",
    "util",
]
__all__ += constants.__all__
__all__ += errors.__all__

# The other sub-modules of pyACL, by what they need that is not here.
_ABSENT = {
    "blas": "operators", "fv": "a vector database", "himpi": "a video codec", "mdl": "models", "media": "a video codec",
    "op": "operators", "prof": "a profiler of devices",
}


if not _TYPE_CHECKING:  # type checkers would take any name for one that is there

    def __getattr__(name: str) -> _NoReturn:
        if name in _ABSENT:
            text = f"acl.{name} needs {_ABSENT[name]}, and ascend_rt has none; it has acl.rt and acl.util"
            raise AttributeError(text)
        raise AttributeError(f"module 'acl' has no attribute {name!r}")
