"""How many threads a BLAS takes in a rank, by the environment that it finds."""

import pytest
from ascend_rt.launcher.cli import blas_threads

pytestmark = pytest.mark.proof


@pytest.mark.parametrize(
    ("environ", "threads"),
    [
        ({}, 1),
        ({"OMP_NUM_THREADS": "8"}, 8),
        ({"OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "8", "MKL_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": ""}, 8),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "0"}, 1),
        ({"OMP_NUM_THREADS": "many"}, 1),
    ],
)
def test_blas_threads(environ: dict[str, str], threads: int) -> None:
    assert blas_threads(environ) == threads
