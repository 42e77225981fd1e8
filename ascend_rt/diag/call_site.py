"""Which line of the user's program is running: what an error names beside the rank."""

import sys
from pathlib import Path

PACKAGE = __name__.partition(".")[0]


def call_site() -> str:
    """`file:line` of the innermost frame outside of this package (its examples are programs, not the package)."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(f"{PACKAGE}.") or module.startswith(f"{PACKAGE}.examples"):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "unknown place"
