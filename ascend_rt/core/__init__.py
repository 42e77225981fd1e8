"""The only native code: runs one plan, moves bytes, reduces, waits."""

from pathlib import Path

try:
    from . import _core as _core
except ImportError as error:
    if not list(Path(__file__).parent.glob("_core*.so")):
        raise ImportError(
            f"{Path(__file__).parents[1]} is a source folder without the built core, not the installed ascend_rt. "
            "Install it (pip install . in the checkout) and run without the checkout on sys.path."
        ) from error
    raise
