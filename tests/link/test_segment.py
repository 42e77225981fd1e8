"""The sizes of the job's memory: large windows, halved where address space is rationed, a clear error at last."""

import errno
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt.link import segment
from ascend_rt.link.limits import usable_memory
from ascend_rt.link.segment import GIB, MIB, JobMemoryError, make_job_memory, size_text, window_sizes

pytestmark = pytest.mark.proof


def test_windows_are_halved_from_64_gib_to_64_mib() -> None:
    assert window_sizes(None) == [64 * GIB >> shift for shift in range(11)]


@given(st.integers(1, 1 << 44))
def test_windows_hold_what_was_asked_for(hbm: int) -> None:
    sizes = window_sizes(hbm)
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[-1] >= max(hbm, 64 * MIB)
    assert sizes[0] == max(64 * GIB, sizes[-1])
    assert all(size % (2 * MIB) == 0 for size in sizes)


def test_budget_without_hbm_is_shared() -> None:
    made = make_job_memory(3)
    assert (made.ranks, made.devices, made.window_nbytes) == (3, 3, 64 * GIB)
    assert made.hbm_limit == made.hbm_device_limit == int(0.8 * usable_memory())


def test_budget_with_hbm_is_per_device() -> None:
    made = make_job_memory(2, 5 * MIB)
    assert (made.hbm_limit, made.hbm_device_limit) == (10 * MIB, 5 * MIB)


def test_more_devices_than_ranks() -> None:
    made = make_job_memory(1, 5 * MIB, 3)
    assert (made.ranks, made.devices, made.hbm_limit) == (1, 3, 15 * MIB)


class Refusing:
    """Stands for the core where only windows below `fits` can be mapped."""

    def __init__(self, fits: int, number: int = errno.ENOMEM) -> None:
        self.fits, self.number, self.tried = fits, number, list[int]()

    def create(self, ranks: int, devices: int, window: int, limit: int, device_limit: int) -> tuple[int, int, int]:
        self.tried.append(window)
        if window > self.fits:
            raise OSError(self.number, "refused")
        return window, limit, device_limit


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EFBIG, errno.EAGAIN])
def test_windows_shrink_until_they_fit(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    core = Refusing(700 * MIB, number)
    monkeypatch.setattr(segment, "Segment", core)
    made: Any = make_job_memory(4)
    assert made == (512 * MIB, min(2 * GIB, int(0.8 * usable_memory())), 512 * MIB)
    assert core.tried == window_sizes(None)[:8]


def test_too_little_address_space_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "Segment", Refusing(MIB))
    with pytest.raises(JobMemoryError, match=r"4 devices need a window of 64 MiB each .* 512 MiB .* Raise the limit"):
        make_job_memory(4)
    with pytest.raises(JobMemoryError, match=r"a window of 128 GiB each \(--hbm 128 GiB\)"):
        make_job_memory(4, 128 * GIB)


def test_other_errors_are_not_taken_for_lack_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "Segment", Refusing(0, errno.ENOSYS))
    with pytest.raises(OSError, match="refused"):
        make_job_memory(1)


@pytest.mark.processes
@pytest.mark.parametrize(("kind", "gib"), [("RLIMIT_AS", 20), ("RLIMIT_FSIZE", 10)])
def test_real_limits(kind: str, gib: int) -> None:
    """`ulimit -v` and `ulimit -f` shrink the windows; the memory is there all the same."""
    source = (
        f"import resource; resource.setrlimit(resource.{kind}, ({gib} << 30, {gib} << 30))\n"
        "from ascend_rt.link.segment import make_job_memory\n"
        "print(make_job_memory(4).window_nbytes)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, cwd="/")
    assert done.stderr == ""
    assert int(done.stdout) == (2 * GIB if kind == "RLIMIT_AS" else GIB)


def test_size_text() -> None:
    assert [size_text(n) for n in (17, 4096, 3 * MIB // 2, 64 * GIB)] == ["17 bytes", "4 KiB", "1.5 MiB", "64 GiB"]
