"""acl.rt: the code of the last failure."""

from typing import Any

from ..constants import ACL_RT_THREAD_LEVEL
from ..errors import ACL_ERROR_FEATURE_UNSUPPORTED, AclError
from ..return_codes import forget_last_error, last_error, ranged, returns_code


def peek_at_last_error(level: int, /) -> int:
    """ret: the code of the last failure in this thread, 0 if there is none. level: 0, or 107000."""
    return _check(level) or last_error()


def get_last_error(level: int, /) -> int:
    """peek_at_last_error, and it is forgotten."""
    wrong = _check(level)
    if wrong:
        return wrong
    code = last_error()
    forget_last_error()
    return code


@returns_code
def set_exception_info_callback(function: Any, /) -> None:
    """Unsupported: what it reports are exceptions of kernels on AI cores, and no kernel runs here. What fails on a
    stream is the code of its synchronisation, and acl.get_recent_err_msg has the words.

    ret: 200006.
    """
    text = "no kernel runs here; what fails on a stream is the code of its synchronisation"
    raise AclError(ACL_ERROR_FEATURE_UNSUPPORTED, f"set_exception_info_callback({function!r}): {text}")


@returns_code
def _check(level: int) -> None:
    ranged("level", level, ACL_RT_THREAD_LEVEL, ACL_RT_THREAD_LEVEL)
