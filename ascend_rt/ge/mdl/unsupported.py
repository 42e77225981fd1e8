"""What pyACL has for models and has no sense here: each function says why, by code and acl.get_recent_err_msg."""

from typing import Any, NoReturn

from ...acl.errors import ACL_ERROR_FEATURE_UNSUPPORTED, AclError
from ...acl.return_codes import returns_code, returns_value_and_code

NO_CONFIG = "models are loaded by load_from_file or load_from_mem; there is nothing to configure"
NO_BUNDLE = "an .om of hccl-atc holds the graphs of all ranks, and no bundle of models"
NO_DUMP = "tensors are arrays of this process: look at them, or capture the step and read Graph.array"
NO_OPERATORS = "the nodes of a graph are functions, copies and collectives; ge.load gives a Graph that can be read"


def create_config_handle() -> int:
    """Unsupported: there is nothing to configure in a load. 0; no ret."""
    return 0


@returns_code
def set_config_opt(handle: int, attribute: int, value: Any, /) -> None:
    """Unsupported: there is nothing to configure in a load. ret: 200006."""
    _refuse("set_config_opt", NO_CONFIG)


@returns_value_and_code
def load_with_config(handle: int, /) -> int:
    """Unsupported: use load_from_file or load_from_mem. (0, 200006)."""
    _refuse("load_with_config", NO_CONFIG)


@returns_code
def destroy_config_handle(handle: int, /) -> None:
    """Unsupported: there are none. ret: 200006."""
    _refuse("destroy_config_handle", NO_CONFIG)


@returns_value_and_code
def bundle_load_from_file(path: str, /) -> int:
    """Unsupported: an .om holds the graphs of all ranks, and no bundle. (0, 200006)."""
    _refuse("bundle_load_from_file", NO_BUNDLE)


@returns_value_and_code
def bundle_load_from_mem(ptr: int, size: int, /) -> int:
    """Unsupported: an .om holds the graphs of all ranks, and no bundle. (0, 200006)."""
    _refuse("bundle_load_from_mem", NO_BUNDLE)


@returns_code
def bundle_unload(bundle: int, /) -> None:
    """Unsupported: there are no bundles. ret: 200006."""
    _refuse("bundle_unload", NO_BUNDLE)


@returns_code
def init_dump() -> None:
    """Unsupported: tensors are arrays of the process, and need no dump. ret: 200006."""
    _refuse("init_dump", NO_DUMP)


@returns_code
def set_dump(path: str, /) -> None:
    """Unsupported: tensors are arrays of the process, and need no dump. ret: 200006."""
    _refuse("set_dump", NO_DUMP)


@returns_code
def finalize_dump() -> None:
    """Unsupported: tensors are arrays of the process, and need no dump. ret: 200006."""
    _refuse("finalize_dump", NO_DUMP)


def get_op_attr(desc: int, name: str, attribute: str, /) -> str:
    """Unsupported: nodes have no attributes of operators. ""; no ret."""
    return ""


def _refuse(call: str, why: str) -> NoReturn:
    raise AclError(ACL_ERROR_FEATURE_UNSUPPORTED, f"acl.mdl.{call}: {why}")
