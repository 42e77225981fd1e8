"""The device runtime: streams, events and device memory, and pyACL's functions over them.

    from ascend_rt import acl                     stream, ret = acl.rt.create_stream()

acl.rt          device, context, stream, event, memory: integers and return codes
acl.mdl         models: brought by ascend_rt.ge
acl.util        addresses of arrays, and arrays over addresses
acl.ACL_...     constants and error codes under their C names
"""

from collections.abc import Callable as _Callable
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import constants, errors, rt
from . import host_pointers as util
from .constants import *  # noqa: F403  it lists its names
from .data_buffers import (
    create_data_buffer,
    destroy_data_buffer,
    get_data_buffer_addr,
    get_data_buffer_size,
    get_data_buffer_size_v2,
    update_data_buffer,
)
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
    "create_data_buffer",
    "data_type_size",
    "destroy_data_buffer",
    "finalize",
    "finalize_reference",
    "get_cann_version",
    "get_data_buffer_addr",
    "get_data_buffer_size",
    "get_data_buffer_size_v2",
    "get_recent_err_msg",
    "get_soc_name",
    "get_version",
    "init",
    "rt",
    "update_data_buffer",
    "util",
]
__all__ += constants.__all__
__all__ += errors.__all__

# The other sub-modules of pyACL, by what they need that is not here.
_ABSENT = {
    "blas": "operators", "fv": "a vector database", "himpi": "a video codec", "media": "a video codec",
    "op": "operators", "prof": "a profiler of devices",
}


# Sub-modules that a room above brings, since this one cannot reach it.
_brought: dict[str, _Callable[[], _ModuleType]] = {}


def _bring(name: str, find: _Callable[[], _ModuleType]) -> None:
    _brought[name] = find


if not _TYPE_CHECKING:  # type checkers would take any name for one that is there

    def __getattr__(name: str) -> _ModuleType:
        if name in _brought:
            return _brought[name]()
        if name == "mdl":
            text = "acl.mdl comes with ascend_rt.ge: import that first, or run the program by hccl-run --acl"
            raise AttributeError(text)
        if name in _ABSENT:
            text = f"acl.{name} needs {_ABSENT[name]}, and ascend_rt has none; it has acl.rt and acl.util"
            raise AttributeError(text)
        raise AttributeError(f"module 'acl' has no attribute {name!r}")
