"""How large the job's memory is: address space generously, memory by budget.

Address space costs nothing until it is touched, so every device gets a window far larger than anyone will fill; what
may be *allocated* in all windows together is the budget (`hbm_limit`), a part of the memory this job may really use.
Where even address space is rationed (`ulimit -v`, `ulimit -f`, strict overcommit) the windows are halved until they
fit.
"""

import errno
import os
import resource
from pathlib import Path

from ..core._core import Segment
from .limits import usable_memory

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WINDOW_NBYTES = 64 * GIB
SMALLEST_WINDOW_NBYTES = 64 * MIB
WINDOW_UNIT = 2 * MIB  # a huge page
# The rest is for the program's own arrays, the page cache and the kernel.
BUDGET = 0.8

_NO_ROOM = {errno.ENOMEM, errno.EFBIG, errno.EAGAIN, errno.EOVERFLOW}


class JobMemoryError(MemoryError):
    """The job's memory cannot be made: says the size that was tried, the limits in force and what to do."""


def make_job_memory(
    ranks: int, hbm: int | None = None, devices: int | None = None, like: Segment | None = None
) -> Segment:
    """The segment of a job of `ranks` ranks on `devices` devices, None: as many.

    hbm: bytes that may be allocated on each device; None: any device may take the whole budget, which is 0.8 of the
    smaller of the machine's memory and the memory limit of the job's cgroup. like: a job whose budget it has instead.

    Raises JobMemoryError if not even windows of 64 MiB, or of `hbm`, can be mapped.
    """
    devices = ranks if devices is None else devices
    budget = int(BUDGET * usable_memory())
    limit, device_limit = (budget, budget) if hbm is None else (devices * hbm, hbm)
    if like is not None:
        limit, device_limit = like.hbm_limit, like.hbm_device_limit
    for window in window_sizes(hbm):
        try:
            return Segment.create(ranks, devices, window, min(limit, devices * window), min(device_limit, window))
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
    raise JobMemoryError(_explain(ranks, devices, hbm))


def is_same_memory(one: Segment, other: Segment) -> bool:
    """Whether two mappings, perhaps at different addresses, are of one job."""
    return os.path.samestat(os.fstat(one.fd), os.fstat(other.fd))


def window_sizes(hbm: int | None) -> list[int]:
    """Sizes of a window to try, the largest first; none is smaller than what was asked for on each device."""
    smallest = max(SMALLEST_WINDOW_NBYTES, -(-(hbm or 0) // WINDOW_UNIT) * WINDOW_UNIT)
    sizes = [max(WINDOW_NBYTES, smallest)]
    while sizes[-1] > smallest:
        sizes.append(max(sizes[-1] // 2 // WINDOW_UNIT * WINDOW_UNIT, smallest))
    return sizes


def size_text(nbytes: int) -> str:
    """`nbytes` in the largest unit that keeps it readable, as in "1.5 GiB"."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.4g} {name}"
    return f"{nbytes} bytes"


def _explain(ranks: int, devices: int, hbm: int | None) -> str:
    smallest = window_sizes(hbm)[-1]
    limits = [
        f"{name} is {size_text(soft)}"
        for name, kind in (("ulimit -v", resource.RLIMIT_AS), ("ulimit -f", resource.RLIMIT_FSIZE))
        if (soft := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY
    ]
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2":
        limits.append("vm.overcommit_memory is 2 (strict)")
    wanted = "the smallest possible" if hbm is None else f"--hbm {size_text(hbm)}"
    in_all = devices * smallest * (2 if ranks > 1 else 1)  # a window for guests beside each: core/layout.h
    return (
        f"cannot map the memory of the job: {devices} {'device needs' if devices == 1 else 'devices need'} a window of "
        f"{size_text(smallest)} each ({wanted}), {size_text(in_all)} of address space in all; "
        f"{', '.join(limits) or 'no limit of this process is set'}. "
        "Raise the limit, start fewer ranks, or give a smaller --hbm."
    )
