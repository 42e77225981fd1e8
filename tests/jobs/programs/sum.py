"""Ranks of job NUMBER add what only they have; two jobs that met would get other sums."""

import os

import numpy as np

import ascend_rt as rt

comm = rt.init()
job = int(os.environ.get("NUMBER", "0"))
x = rt.array(np.arange(5, dtype=np.float32) + 1000 * comm.rank + job)
comm.all_reduce(x)
n = comm.size
expected = n * np.arange(5) + 1000 * n * (n - 1) / 2 + n * job
print("right" if np.array_equal(x, expected) else f"wrong {x} {expected}", comm.rank, comm.size, flush=True)
