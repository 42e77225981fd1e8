"""A rank's BLAS takes its share of the processors, or what the shell says."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

SOURCE = """
import numpy, threadpoolctl
print(*(library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"))
"""
NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.mark.parametrize(
    ("environ", "threads"),
    [
        ({}, None),
        ({"OPENBLAS_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}, 1),
    ],
)
def test_blas_threads_of_a_forked_rank(
    hccl_run: Callable[..., Any],
    script: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    threads: int | None,
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    outcome = hccl_run("--no-prefix", script(SOURCE), n=1, env=environ)
    assert outcome.code == 0, outcome
    assert outcome.out.split() == [str(threads or len(os.sched_getaffinity(0)))]
