"""The Ascend distributed runtime on ordinary CPUs.

    import ascend_rt as rt

    comm = rt.init()                         # from the environment that hccl-run sets; a world of one without it
    x = rt.array([1.0, 2.0], "float32")      # a NumPy array over device memory
    comm.all_reduce(x, op="avg")             # in place, on every rank
    rt.finalize()

The names below come from their rooms when they are first used: importing the package starts nothing and imports no
NumPy, because the launcher has to choose the number of BLAS threads before NumPy is loaded.
"""

from typing import TYPE_CHECKING, Any

from . import core as core

if TYPE_CHECKING:
    from .acl import Event as Event
    from .acl import Stream as Stream
    from .hccl import Communicator as Communicator
    from .hccl import HcclError as HcclError
    from .hccl.world import array as array
    from .hccl.world import empty as empty
    from .hccl.world import finalize as finalize
    from .hccl.world import init as init
    from .hccl.world import zeros as zeros

__all__ = ["Communicator", "Event", "HcclError", "Stream", "array", "empty", "finalize", "init", "zeros"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ascend_rt' has no attribute {name!r}")
    from . import acl, hccl
    from .hccl import world

    # acl has an init and a finalize too, its own.
    room = hccl if name in hccl.__all__ else acl if name in ("Event", "Stream") else world
    value = getattr(room, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
