"""The core on aarch64: it compiles without a warning, and its kernels give the bits that this machine's give.

Cross-compiled and run under qemu-user, which shows arithmetic; it does not show how an aarch64 processor orders memory.
"""

import secrets
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "ascend_rt" / "core"
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
C_LIBRARY = Path("/usr/aarch64-linux-gnu")
FLAGS = f"-std=c11 -O2 -ffp-contract=off -Wall -Wextra -Wshadow -Werror -I{CORE}".split()

AGREE = "tests/core/native/reduce_variants_agree.c"
KERNELS = sorted(str(path.relative_to(ROOT)) for path in CORE.glob("reduce*.c"))
PLAIN, NEON = 0, 3

missing = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]
if not C_LIBRARY.exists():
    missing.append(str(C_LIBRARY))
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        bool(missing),
        reason=f"not on this machine: {', '.join(missing)}; "
        "on Debian and Ubuntu: apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user",
    ),
]


class NativeBuild(Protocol):
    def library(self, sources: list[str]) -> Path: ...


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every C file of the core that needs no Python, and the program that compares kernels: compiled for aarch64."""
    folder = tmp_path_factory.mktemp("aarch64")
    without_python = (path for path in CORE.glob("*.c") if not path.name.startswith("binding"))
    sources = [*sorted(without_python), ROOT / AGREE]

    def compiled(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        run(COMPILER, *FLAGS, "-c", str(source), "-o", str(target))
        return target

    with ThreadPoolExecutor(2) as pool:
        return dict(zip((str(path.relative_to(ROOT)) for path in sources), pool.map(compiled, sources), strict=True))


def test_the_core_compiles_without_a_warning(objects: dict[str, Path]) -> None:
    assert {*KERNELS, "ascend_rt/core/board.c", "ascend_rt/core/exec.c"} <= objects.keys()


def test_kernels_give_the_bits_of_this_machine(
    objects: dict[str, Path], native: NativeBuild, compile_and_run: Callable[..., str], tmp_path: Path
) -> None:
    program, seed, rounds = str(tmp_path / "agree"), str(secrets.randbits(32)), "20"
    run(COMPILER, "-o", program, *(str(objects[source]) for source in [AGREE, *KERNELS]), "-lm")
    emulated = run(EMULATOR, "-L", str(C_LIBRARY), program, seed, rounds).splitlines()
    native = compile_and_run([AGREE, str(native.library(KERNELS))], "none", seed, rounds).splitlines()
    assert emulated[0] == f"seed {seed}, variants {PLAIN} {NEON}"
    assert emulated[-1] == native[-1], f"{emulated} against {native}"
