"""Builds the C11 extension; everything else about the package is in setup.cfg."""

import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError

# Free-threaded CPython has no stable ABI before 3.15.
ABI3 = not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildCore(build_ext):
    """build_ext that says in one sentence what a missing compiler or missing headers need."""

    def build_extension(self, ext: Extension) -> None:
        if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
            raise SystemExit("ascend_rt: Python.h is missing; on Debian and Ubuntu: apt install python3-dev gcc")
        try:
            super().build_extension(ext)
        except (CCompilerError, FileNotFoundError) as error:
            raise SystemExit(
                f"ascend_rt: the C core could not be compiled ({error}); "
                "on Debian and Ubuntu: apt install gcc python3-dev"
            ) from error


core = Extension(
    "ascend_rt.core._core",
    sources=sorted(str(path) for path in Path("ascend_rt/core").glob("*.c")),
    depends=sorted(str(path) for path in Path("ascend_rt/core").glob("*.h")),
    # No contraction: every kernel variant must give the same bits.
    extra_compile_args=["-std=c11", "-O2", "-ffp-contract=off", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")] if ABI3 else [],
    py_limited_api=ABI3,
)
setup(
    ext_modules=[core],
    cmdclass={"build_ext": BuildCore},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
)
