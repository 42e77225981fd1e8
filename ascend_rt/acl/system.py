"""acl: the calls about the runtime itself."""

import importlib.metadata
import json
from pathlib import Path

from .constants import ITEM_NBYTES
from .errors import (
    ACL_ERROR_INVALID_FILE,
    ACL_ERROR_PARSE_FILE,
    ACL_ERROR_REPEAT_FINALIZE,
    ACL_ERROR_UNINITIALIZE,
    AclError,
)
from .return_codes import integer, ranged, returns_code, returns_value_and_code

VERSION = (1, 0, 0)
SOC_NAME = "Ascend910B1"
CANN_PACKAGES = range(8)  # aclCANNPackageName: CANN, runtime, compiler, HCCL, toolkit, OPP, OPP kernels, driver

_inits = 0
_ever = False


@returns_code
def init(config_path: str = "", /) -> None:
    """ret. May be repeated: calls are counted, see finalize. Joins nothing; acl.rt works without it.

    config_path: a JSON file, whose content changes nothing here. 100003: no such file; 100006: it is no JSON.
    """
    global _inits, _ever
    if not isinstance(config_path, str):
        raise TypeError(f"config_path is a {type(config_path).__name__}; expected a str")
    if config_path:
        _check_config(Path(config_path))
    _inits, _ever = _inits + 1, True


@returns_code
def finalize() -> None:
    """Undo one init. ret. What acl.rt has opened stays until reset_device or the end of the process.

    100001: there was no init; 100037: each has been undone.
    """
    _undo_one_init()


@returns_value_and_code
def finalize_reference() -> int:
    """(count, ret): finalize, and how many inits are left."""
    _undo_one_init()
    return _inits


def get_version() -> tuple[int, int, int, int]:
    """(major, minor, patch, ret) of the interface that is spoken here."""
    return (*VERSION, 0)


def get_soc_name() -> str:
    """The chip whose rules are followed where chips differ: of the generation Atlas A2."""
    return SOC_NAME


@returns_value_and_code
def get_cann_version(package: int, /) -> dict[str, str]:
    """({"version", "major_version", "minor_version", "release_version", "patch_version"}, ret): ascend_rt's own version
    stands for that of every CANN package, 0 to 7. 107000: no such package."""
    ranged("package", package, CANN_PACKAGES[0], CANN_PACKAGES[-1])
    version = importlib.metadata.version("ascend_rt")
    names = ("major_version", "minor_version", "release_version", "patch_version")
    parts = [*version.split("."), "0", "0", "0", "0"]
    return {"version": version, **dict(zip(names, parts, strict=False))}


def data_type_size(dtype: int, /) -> int:
    """Bytes of one element of an aclDataType; 0 if it has no fixed size or is none."""
    return {int(known): nbytes for known, nbytes in ITEM_NBYTES.items()}.get(integer("dtype", dtype), 0)


def _undo_one_init() -> None:
    global _inits
    if not _inits:
        code = ACL_ERROR_REPEAT_FINALIZE if _ever else ACL_ERROR_UNINITIALIZE
        raise AclError(code, "acl.finalize without acl.init")
    _inits -= 1


def _check_config(path: Path) -> None:
    try:
        json.loads(path.read_text())
    except OSError as error:
        raise AclError(ACL_ERROR_INVALID_FILE, f"config_path={str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise AclError(ACL_ERROR_PARSE_FILE, f"config_path={str(path)!r} is no JSON: {error}") from None
