"""What functions with C names answer: values and, as the last, the return code."""

from typing import Any

from ascend_rt import acl


def made(answer: tuple[Any, ...]) -> Any:
    """The first value of an answer whose return code says success."""
    assert answer[-1] == 0, acl.get_recent_err_msg()
    return answer[0]
