"""The packed form as the core reads it: damage is refused, and counts are cut as ascend_rt.plan cuts them."""

import ctypes
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_rt.plan import alignment, chunk_span, scratch_stride

pytestmark = pytest.mark.threads


def test_damaged_plans_are_refused_or_harmless(
    compile_and_run: Callable[..., str], engine: list[str], plan_file: Callable[..., str]
) -> None:
    program, seed = ["tests/core/native/plan_reading.c", *engine], str(random.randrange(2**32))
    said = compile_and_run(program, "address", plan_file(1, 2, 3, 4), seed, "100000")
    harmless, _, damaged, *_ = said.split()
    assert 0 < int(harmless) < int(damaged) == 100000


class Cut(ctypes.Structure):
    """struct cut of plan.h."""

    _fields_ = (
        ("count", ctypes.c_uint64),
        ("align", ctypes.c_uint64),
        ("units", ctypes.c_uint64),
        ("chunks", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def core(native: Any) -> ctypes.CDLL:
    library = ctypes.CDLL(str(native.library(["ascend_rt/core/plan.c"])))
    library.cut_count.restype = Cut
    library.cut_count.argtypes = (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_size_t)
    library.chunk_start.restype = ctypes.c_uint64
    library.chunk_start.argtypes = (ctypes.POINTER(Cut), ctypes.c_uint64)
    library.scratch_chunk_count.restype = ctypes.c_uint64
    library.scratch_chunk_count.argtypes = (ctypes.POINTER(Cut),)
    return library


COUNTS = st.integers(0, 300) | st.integers(0, 2**40)


@settings(deadline=None, max_examples=500)
@given(count=COUNTS, chunks=st.integers(1, 64), itemsize=st.sampled_from([1, 2, 4, 8]), data=st.data())
def test_chunks_begin_where_the_plan_says(
    core: ctypes.CDLL, count: int, chunks: int, itemsize: int, data: st.DataObject
) -> None:
    cut, align = core.cut_count(count, chunks, itemsize), alignment(itemsize)
    chunk = data.draw(st.integers(0, 8 * chunks), "chunk")
    n = data.draw(st.integers(1, chunks), "n")
    span = core.chunk_start(cut, chunk), core.chunk_start(cut, chunk + n)
    assert span == chunk_span(chunk, n, count, chunks, align)
    assert core.scratch_chunk_count(cut) == scratch_stride(count, chunks, align)
