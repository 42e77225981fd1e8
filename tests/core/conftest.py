"""Builds and runs C test programs of the core, with or without a sanitizer."""

import functools
import os
import random
import subprocess
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "ascend_rt" / "core"

# The flags of setup.py; tests differ in warnings being errors.
FLAGS = f"-std=c11 -O2 -g1 -ffp-contract=off -Wall -Wextra -Wshadow -Werror -I{CORE}".split()
LIBRARIES = ("-lm", "-pthread")

# All of the core that knows no Python, but for the kernels, which take half a minute to compile under a sanitizer.
ENGINE_FILES = (
    *("segment", "arena", "view", "wait", "board", "communicator", "call", "exchange", "plan", "exec", "move", "reach"),
    *("split", "channel", "transfer", "link"),
)
ENGINE = [f"ascend_rt/core/{name}.c" for name in ENGINE_FILES]

Sanitizer = Literal["address", "thread", "none"]
# UBSan's checks of addresses are left to AddressSanitizer, and -O1 is enough: kernels compile in a third of the time.
SANITIZER_FLAGS: dict[Sanitizer, tuple[str, ...]] = {
    "address": (
        "-O1",
        "-fsanitize=address,undefined",
        "-fno-sanitize=object-size,null,bounds,pointer-overflow",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
    ),
    "thread": ("-fsanitize=thread",),
    "none": (),
}


@functools.cache
def address_randomisation_off() -> tuple[str, ...]:
    """The command prefix under which ThreadSanitizer finds its shadow memory free.

    Kernels with vm.mmap_rnd_bits above 28 place mappings where the runtime of gcc 12 wants its shadow.
    """
    prefix = ("setarch", "-R")
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return prefix if allowed else ()


def compile_or_link(arguments: list[str]) -> None:
    done = subprocess.run(["cc", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"cc {' '.join(arguments)}\n{done.stderr}"


class NativeBuild:
    """Compiles C sources, named relative to the root of the checkout, into one folder: each once for given flags."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects: dict[tuple[str, tuple[str, ...]], Path] = {}
        self.built: dict[tuple[tuple[str, ...], tuple[str, ...]], Path] = {}

    def build(self, sources: Iterable[str], flags: Iterable[str]) -> Path:
        key = (tuple(sources), tuple(flags))
        if key not in self.built:
            output = self.folder / f"build_{len(self.built)}"
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = list(pool.map(lambda source: str(self.object(source, key[1])), key[0]))
            compile_or_link([*key[1], "-o", str(output), *objects, *LIBRARIES])
            self.built[key] = output
        return self.built[key]

    def object(self, source: str, flags: tuple[str, ...]) -> Path:
        """The object file of a C source; what is compiled already, a shared library, is its own."""
        if not source.endswith(".c"):
            return Path(source)
        if (source, flags) not in self.objects:
            output = Path(tempfile.mkdtemp(dir=self.folder)) / f"{Path(source).stem}.o"
            compile_or_link([*FLAGS, *flags, "-c", "-o", str(output), str(ROOT / source)])
            self.objects[source, flags] = output
        return self.objects[source, flags]

    def library(self, sources: Iterable[str]) -> Path:
        """A shared library, for ctypes."""
        return self.build(sources, ("-shared", "-fPIC"))

    def run(self, sources: Iterable[str], sanitizer: Sanitizer, *arguments: str, timeout: float = 120) -> str:
        """Builds a program, runs it with `arguments`, returns its stdout.

        Blocks at most `timeout` seconds. Fails the test with all the program printed unless it exits with 0: sanitizers
        exit otherwise on their first finding.
        """
        prefix = address_randomisation_off() if sanitizer == "thread" else ()
        command = [*prefix, str(self.build(sources, SANITIZER_FLAGS[sanitizer])), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> NativeBuild:
    return NativeBuild(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def compile_and_run(native: NativeBuild) -> Callable[..., str]:
    """`compile_and_run(sources, sanitizer, *arguments)`, see NativeBuild.run.

    compile_and_run(["tests/core/native/board_races.c", "ascend_rt/core/board.c"], "thread", "1000")
    """
    return native.run


@pytest.fixture(scope="session")
def engine() -> list[str]:
    """Sources for programs that run calls without Python: the core, with obvious kernels in place of the fast ones."""
    return [*ENGINE, "tests/core/native/plain_reduce.c", "tests/core/native/plan_file.c"]


@pytest.fixture(scope="session")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """`plan_file(*sizes)`: a file with the packed plans of all algorithms that move data, for native/plan_file.c."""
    folder = tmp_path_factory.mktemp("plans")

    @functools.cache
    def write(*sizes: int) -> str:
        path = folder / f"{'_'.join(map(str, sizes))}.plans"
        path.write_bytes(b"".join(record.tobytes() for size in sizes for record in plan_records(size)))
        return str(path)

    return write


def plan_records(size: int) -> Iterator["array[int]"]:
    from ascend_rt.plan import COLLECTIVES, build, fingerprint, listing, pack
    from ascend_rt.plan.packed import lent
    from ascend_rt.plan.registry import parameters

    halves = tuple(range(size // 2)), tuple(range(size // 2, size))
    # A call that asks for no algorithm finds the mesh first.
    for collective, algorithm in sorted(listing(), key=lambda pair: pair[1] != "mesh"):
        spec = COLLECTIVES[collective]
        options: dict[str, Any] = {"servers": halves} if "servers" in parameters(collective, algorithm) else {}
        if options and size % 2:
            continue
        number = {"mesh": 0, "ring": 1}.get(algorithm, 2)
        for root in range(size) if spec.rooted else [-1]:
            for rank in range(size):
                plan = build(collective, algorithm, rank, size, max(root, 0), **options)
                words = pack(plan)
                if plan.touches:
                    marks_in, marks_out = lent(plan)
                    record = [spec.number, number, root, size, rank, fingerprint(plan)]
                    record += [len(words), len(marks_in), len(marks_out), *words, *marks_in, *marks_out]
                    yield array("I", [word % 2**32 for word in record])


@pytest.fixture(params=["thread", "address"])
def sanitizer(request: pytest.FixtureRequest) -> Sanitizer:
    """Each in turn."""
    found: Sanitizer = request.param
    return found


@pytest.fixture(params=["spin", "sleep"])
def waiting(request: pytest.FixtureRequest) -> str:
    """How ranks wait, as the native programs are told: for long awake, or asleep at once."""
    return str(request.param)


@pytest.fixture
def random_run(
    compile_and_run: Callable[..., str],
    engine: list[str],
    plan_file: Callable[..., str],
    sanitizer: Sanitizer,
    waiting: str,
) -> Callable[..., tuple[int, str]]:
    """`random_run(sources, size, rounds)`: runs a program of native/threads.h; its seed, and what it printed."""

    def run(sources: Iterable[str], size: int, rounds: int) -> tuple[int, str]:
        seed = random.randrange(2**32)
        built_from = [*sources, "tests/core/native/threads.c", "tests/core/native/calls.c", *engine]
        words = map(str, (size, seed, rounds, plan_file(size), waiting))
        return seed, compile_and_run(built_from, sanitizer, *words)

    return run
