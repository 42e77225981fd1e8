"""What pyACL has for models and has no sense here: each function says why, by code and acl.get_recent_err_msg."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ...acl.errors import ACL_ERROR_FEATURE_UNSUPPORTED, AclError
from ...acl.return_codes import returns_code, returns_value_and_code

NO_CONFIG = "models are loaded by load_from_file or load_from_mem; there is nothing to configure"
NO_BUNDLE = "an .om of hccl-atc holds the graphs of all ranks, and no bundle of models"
NO_DUMP = "tensors are arrays of this process: look at them, or capture the step and read Graph.array"

P = ParamSpec("P")
Value = TypeVar("Value")


def _refuses(why: str) -> Callable[[Callable[P, Value]], Callable[P, Value]]:
    """Has a function that does nothing raise AclError (200006) with the reason; arguments that it does not take are a
    TypeError as ever."""

    def refusing(function: Callable[P, Value]) -> Callable[P, Value]:
        @functools.wraps(function)
        def refuse(*args: P.args, **kwargs: P.kwargs) -> Value:
            function(*args, **kwargs)
            raise AclError(ACL_ERROR_FEATURE_UNSUPPORTED, f"acl.mdl.{function.__name__}: {why}")

        return refuse

    return refusing


def create_config_handle() -> int:
    """Unsupported: there is nothing to configure in a load. 0; no ret."""
    return 0


@returns_code
@_refuses(NO_CONFIG)
def set_config_opt(handle: int, attribute: int, value: Any, /) -> None:
    """Unsupported: there is nothing to configure in a load. ret: 200006."""


@returns_value_and_code
@_refuses(NO_CONFIG)
def load_with_config(handle: int, /) -> int:
    """Unsupported: use load_from_file or load_from_mem. (0, 200006)."""
    return 0


@returns_code
@_refuses(NO_CONFIG)
def destroy_config_handle(handle: int, /) -> None:
    """Unsupported: there are none. ret: 200006."""


@returns_value_and_code
@_refuses(NO_BUNDLE)
def bundle_load_from_file(path: str, /) -> int:
    """Unsupported: an .om holds the graphs of all ranks, and no bundle. (0, 200006)."""
    return 0


@returns_value_and_code
@_refuses(NO_BUNDLE)
def bundle_load_from_mem(ptr: int, size: int, /) -> int:
    """Unsupported: an .om holds the graphs of all ranks, and no bundle. (0, 200006)."""
    return 0


@returns_code
@_refuses(NO_BUNDLE)
def bundle_unload(bundle: int, /) -> None:
    """Unsupported: there are no bundles. ret: 200006."""


@returns_code
@_refuses(NO_DUMP)
def init_dump() -> None:
    """Unsupported: tensors are arrays of the process, and need no dump. ret: 200006."""


@returns_code
@_refuses(NO_DUMP)
def set_dump(path: str, /) -> None:
    """Unsupported: tensors are arrays of the process, and need no dump. ret: 200006."""


@returns_code
@_refuses(NO_DUMP)
def finalize_dump() -> None:
    """Unsupported: tensors are arrays of the process, and need no dump. ret: 200006."""


def get_op_attr(desc: int, name: str, attribute: str, /) -> str:
    """Unsupported: nodes have no attributes of operators. ""; no ret."""
    return ""
