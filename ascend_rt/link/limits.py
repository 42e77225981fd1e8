"""What this process may use of its machine: memory and processors, as cgroups and affinity leave them."""

import os
from pathlib import Path


def usable_memory(root: Path = Path("/")) -> int:
    """Bytes of memory this process may use: the smallest limit of its cgroups (v1 or v2), at most the machine's."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    texts = _cgroup_values(root, "memory", v2="memory.max", v1="memory.limit_in_bytes")
    return min([machine, *(int(text) for text in texts if text.isdecimal())])


def usable_cpus(root: Path = Path("/")) -> int:
    """Processors this process may use: its affinity mask, cut to the smallest quota of its cgroups; at least 1."""
    quotas = [text.split() for text in _cgroup_values(root, "cpu", v2="cpu.max", v1="cpu.cfs_quota_us")]
    # v2 writes "quota period"; v1 the quota alone (-1: none), whose period is 100 ms unless somebody changed it.
    shares = [int(quota) / int(*(period or ["100000"])) for quota, *period in quotas if quota.isdecimal()]
    return max(1, min([len(os.sched_getaffinity(0)), *(int(share) for share in shares)]))


def _cgroup_values(root: Path, controller: str, *, v2: str, v1: str) -> list[str]:
    """What the file says in each cgroup above this process: a limit of a parent binds as well."""
    values: list[str] = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, name = root / "sys/fs/cgroup", v2
        elif controller in controllers.split(","):
            mount, name = root / "sys/fs/cgroup" / controller, v1
        else:
            continue
        # In a container the path is often the host's and does not exist here; the mount itself is then our group.
        group = mount / path.lstrip("/")
        for folder in [group, *group.parents]:
            if folder == mount or mount in folder.parents:
                values.extend(_lines(folder / name))
    return values


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # no such group, or not for us to read: then it limits nothing that we could know of
        return []
