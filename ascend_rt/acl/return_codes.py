"""How the C-named functions answer: they return codes where the Python ones raise.

Inside they raise all the same; the two decorators below turn the exception into its code and keep its text for
`acl.get_recent_err_msg`. An argument of the wrong type is a TypeError, in pyACL as here, and stays one.
"""

import functools
import operator
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from .errors import (
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    ACL_ERROR_RT_FFTS_PLUS_TIMEOUT,
    ACL_ERROR_RT_INTERNAL_ERROR,
    ACL_ERROR_RT_MEMORY_ALLOCATION,
    ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
    AclError,
)

P = ParamSpec("P")
Value = TypeVar("Value")

# What a stream's code is when a collective failed on it, by HcclResult; 507048 is what a notify wait that took too long
# gives on devices.
ACL_CODE_OF_HCCL = {
    1: ACL_ERROR_RT_PARAM_INVALID,
    2: ACL_ERROR_RT_PARAM_INVALID,
    3: ACL_ERROR_RT_MEMORY_ALLOCATION,
    5: ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    9: ACL_ERROR_RT_FFTS_PLUS_TIMEOUT,
    21: ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
    24: ACL_ERROR_RT_MEMORY_ALLOCATION,
}

_recent = threading.local()


def set_recent_err_msg(text: str) -> None:
    """What get_recent_err_msg of this thread returns next."""
    _recent.text = text


def get_recent_err_msg() -> str:
    """The text of the last failure in this thread, "" if there is none; asking takes it away."""
    text: str = getattr(_recent, "text", "")
    _recent.text = ""
    return text


def last_error() -> int:
    """The code of the last failure in this thread, 0 if there is none."""
    code: int = getattr(_recent, "code", 0)
    return code


def forget_last_error() -> None:
    """last_error of this thread is 0 again."""
    _recent.code = 0


def code_of(error: Exception) -> int:
    """The aclError of what a call or a stream raised; never 0."""
    if isinstance(error, AclError):
        return error.code
    return ACL_CODE_OF_HCCL.get(getattr(error, "code", 0), ACL_ERROR_RT_INTERNAL_ERROR)


def integer(name: str, value: Any) -> int:
    """`value` as an int of any size; TypeError if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a {type(value).__name__}; expected an integer") from None


def ranged(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int from low to high; TypeError if it is none, AclError (107000) if it is another."""
    number = integer(name, value)
    if not low <= number <= high:
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, f"{name}={number}; expected {low} to {high}")
    return number


def returns_code(function: Callable[P, None]) -> Callable[P, int]:
    """ret: 0, or the code of what `function` raised."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            function(*args, **kwargs)
        except TypeError:
            raise
        except Exception as error:
            return _tell(error)
        return 0

    return call


def returns_value_and_code(function: Callable[P, Value]) -> Callable[P, tuple[Value | int, int]]:
    """(value, ret): (0, code) if `function` raised."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> tuple[Value | int, int]:
        try:
            return function(*args, **kwargs), 0
        except TypeError:
            raise
        except Exception as error:
            return 0, _tell(error)

    return call


def _tell(error: Exception) -> int:
    set_recent_err_msg("\n".join([str(error) or type(error).__name__, *getattr(error, "__notes__", [])]))
    code = code_of(error)
    _recent.code = code
    return code
