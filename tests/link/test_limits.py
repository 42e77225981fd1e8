"""Limits are read from cgroups of both versions, along the whole path, and never exceed the machine."""

import os
from pathlib import Path

import pytest

from ascend_rt.link.limits import usable_cpus, usable_memory

pytestmark = pytest.mark.proof

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
CPUS = len(os.sched_getaffinity(0))


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, MACHINE),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, MACHINE),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1048576\n"}, 1 << 20),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/memory.max": "4096\n",
            },
            4096,
        ),
        # In a container the path is the host's and does not exist.
        ({"proc/self/cgroup": "0::/docker/123\n", "sys/fs/cgroup/memory.max": "8192\n"}, 8192),
        (
            {
                "proc/self/cgroup": "9:name=systemd:/\n4:memory:/x\n0::/\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "12288\n",
            },
            12288,
        ),
        ({"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{1 << 62}\n"}, MACHINE),
    ],
)
def test_memory(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert usable_memory(write(tmp_path, files)) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, CPUS),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, CPUS),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "99900000 100000\n"}, CPUS),
        ({"proc/self/cgroup": "2:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}, CPUS),
        ({"proc/self/cgroup": "2:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n"}, 1),
    ],
)
def test_cpus(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert usable_cpus(write(tmp_path, files)) == expected
