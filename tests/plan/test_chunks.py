"""Chunk arithmetic: chunks are a partition of every block, aligned, nearly equal, and fit into scratch."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt.plan import alignment, chunk_span, chunk_start, scratch_stride

pytestmark = pytest.mark.proof

counts, chunk_numbers, aligns = st.integers(0, 10**12), st.integers(1, 70), st.sampled_from([1, 2, 3, 8, 16, 32, 64])


@given(counts, chunk_numbers, aligns)
def test_chunks_partition_the_block(count, chunks, align):
    starts = [chunk_start(chunk, count, chunks, align) for chunk in range(chunks + 1)]
    assert starts[0] == 0
    assert starts[-1] == count
    assert starts == sorted(starts)
    assert all(start % align == 0 for start in starts if start < count)


@given(counts, chunk_numbers, aligns)
def test_chunks_differ_by_at_most_one_unit_and_fit_into_scratch(count, chunks, align):
    spans = [chunk_span(chunk, 1, count, chunks, align) for chunk in range(chunks)]
    units = [-(-(stop - start) // align) for start, stop in spans]
    assert max(units) - min(units) <= 1
    assert max(units) * align == scratch_stride(count, chunks, align)


@given(counts, chunk_numbers, aligns, st.data())
def test_chunks_are_numbered_through_all_blocks(count, chunks, align, data):
    chunk = data.draw(st.integers(0, 5 * chunks - 1))
    n = data.draw(st.integers(1, 5 * chunks - chunk))
    pieces = [chunk_span(chunk + offset, 1, count, chunks, align) for offset in range(n)]
    assert all(left[1] == right[0] for left, right in pairwise(pieces))
    assert chunk_span(chunk, n, count, chunks, align) == (pieces[0][0], pieces[-1][1])
    assert chunk_span(chunk, 1, count, chunks, align)[0] == chunk // chunks * count + pieces[0][0] % max(1, count)


def test_by_hand():
    assert [chunk_start(chunk, 100, 3, 16) for chunk in range(4)] == [0, 32, 64, 100]
    assert [chunk_start(chunk, 5, 3, 16) for chunk in range(4)] == [0, 0, 0, 5]
    assert chunk_span(4, 2, 100, 3, 16) == (132, 200)
    assert scratch_stride(100, 3, 16) == 48
    assert [alignment(itemsize) for itemsize in (1, 2, 4, 8)] == [64, 32, 16, 8]
