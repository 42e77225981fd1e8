"""hccl-run --tune: measures the algorithms of this host, in a job for each of 2, 4, 8 ... ranks.

Ranks wait in another way where they outnumber the cores, so what few of them take is measured in a job of few.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..link.limits import usable_cpus

DEFAULT_RANKS = 8
HCCL_RUN = "import sys; from ascend_rt.launcher.cli import main; sys.exit(main())"


def tune(most: int) -> int:
    """Measures up to so many ranks, prints what was found, and keeps it; the exit code."""
    from ..hccl.tune import conclude

    load, cores = os.getloadavg()[0], usable_cpus()
    if load > cores / 2:
        print(f"hccl-run: others use this host (load {load:.1f} on {cores} cores), which disturbs what is measured")
    with tempfile.TemporaryDirectory() as folder:
        for ranks in group_sizes(most):
            words = ["-n", str(ranks), "--no-prefix", "-m", "ascend_rt.hccl.tune", folder]
            code = subprocess.call([sys.executable, "-P", "-c", HCCL_RUN, *words])
            if code:
                return code
        try:
            conclude(Path(folder))
        except OSError as error:
            print(f"hccl-run: --tune cannot keep what it found: {error}", file=sys.stderr)
            return 1
    return 0


def group_sizes(most: int) -> list[int]:
    """2, 4, 8 ... up to a number of ranks, and that."""
    return sorted({most, *(2**power for power in range(1, most.bit_length()))})
