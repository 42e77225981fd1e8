"""Which line of the user's program is running: what an error names beside the rank."""

import functools
import sys
from pathlib import Path
from types import CodeType, FrameType

PACKAGE = __name__.partition(".")[0]


def call_site() -> str:
    """`file:line` of the innermost frame outside of this package (its examples are programs, not the package)."""
    frame = _users_frame()
    return "unknown place" if frame is None else _place(frame.f_code, frame.f_lineno)


def instruction() -> tuple[CodeType | None, int]:
    """The same frame as (code, instruction): cheaper than its line, which `line_of` finds."""
    frame = _users_frame()
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


def line_of(code: CodeType, instruction: int) -> str:
    """`file:line` of an instruction."""
    for first, end, line in code.co_lines():
        if first <= instruction < end and line is not None:
            return _place(code, line)
    return _place(code, code.co_firstlineno)


def _users_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_ours(str(frame.f_globals.get("__name__", ""))):
        frame = frame.f_back
    return frame


@functools.cache
def _is_ours(module: str) -> bool:
    if module == "contextlib":  # between the package's context managers and who enters them
        return True
    return module.startswith(f"{PACKAGE}.") and not module.startswith(f"{PACKAGE}.examples")


def _place(code: CodeType, line: int) -> str:
    return f"{Path(code.co_filename).name}:{line}"
