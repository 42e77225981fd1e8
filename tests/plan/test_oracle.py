"""Packed plans, run by a small interpreter over NumPy arrays in any order that the tokens allow, against NumPy itself.

It reads nothing but the packed words, so what the native core is given is what is tested here.
"""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_rt.plan import COLLECTIVES, InPlace, alignment, chunk_span, pack, scratch_stride, single_fold

pytestmark = pytest.mark.proof

FOLDS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "avg": np.add}
TYPES = ("int8", "uint8", "int16", "int32", "uint64", "float32", "float64")
POST, WAIT, COPY, REDUCE = 1, 2, 3, 4


class Machine:
    """All ranks' memory and packed plans. Enter and leave are not in the words: nothing starts before all are here."""

    def __init__(self, programs, memory, count, align, op):
        self.programs, self.memory, self.count, self.align, self.op = programs, memory, count, align, op
        self.chunks = programs[0][3]
        self.at = [9] * len(programs)
        self.tokens = Counter()

    def run(self, order):
        waiting = set(range(len(self.programs)))
        while waiting:
            able = [rank for rank in sorted(waiting) if self.able(rank)]
            assert able, "deadlock"
            rank = order.choice(able)
            if self.at[rank] == len(self.programs[rank]):
                waiting.remove(rank)
            else:
                self.step(rank)
        assert not +self.tokens

    def able(self, rank):
        words, at = self.programs[rank], self.at[rank]
        return at == len(words) or words[at] != WAIT or self.tokens[words[at + 1], rank] > 0

    def step(self, rank):
        words, at = self.programs[rank], self.at[rank]
        if words[at] == POST:
            self.tokens[rank, words[at + 1]] += 1
            self.at[rank] += 2
        elif words[at] == WAIT:
            self.tokens[words[at + 1], rank] -= 1
            self.at[rank] += 2
        elif words[at] == COPY:
            dst, src = self.views(words[at + 2 : at + 8], words[at + 1])
            dst[:] = src
            self.at[rank] += 8
        else:
            assert words[at] == REDUCE
            n, complete, ndst, nsrc = words[at + 1 : at + 5]
            end = at + 5 + 3 * (ndst + nsrc)
            views = self.views(words[at + 5 : end], n)
            result = self.fold(views[ndst:], complete)
            for dst in views[:ndst]:
                dst[:] = result
            self.at[rank] = end

    def fold(self, sources, complete):
        result = sources[0].copy()
        for source in sources[1:]:
            result = FOLDS[self.op](result, source)
        return result / len(self.programs) if self.op == "avg" and complete else result

    def views(self, words, n):
        refs = [tuple(words[place : place + 3]) for place in range(0, len(words), 3)]
        stride = scratch_stride(self.count, self.chunks, self.align)
        spans = [chunk_span(chunk, n, self.count, self.chunks, self.align) for _, buffer, chunk in refs if buffer < 2]
        length = spans[0][1] - spans[0][0] if spans else stride
        views = []
        for rank, buffer, chunk in refs:
            start = chunk * stride if buffer == 2 else chunk_span(chunk, n, self.count, self.chunks, self.align)[0]
            views.append(self.memory[rank][buffer][start : start + length])
            assert len(views[-1]) == length
        return views


def buffers(spec, rank, size, root, count, data, in_place, scratch):
    """IN, OUT and SCRATCH of a rank, IN filled with `data`."""
    lengths = [blocks.on(rank, size, root) * count for blocks in (spec.blocks_in, spec.blocks_out)]
    if in_place:
        memory = np.zeros(max(lengths), data.dtype)
        starts = [block * count for block in spec.in_place.first_blocks(rank)]
        into, out = (memory[start : start + length] for start, length in zip(starts, lengths, strict=True))
    else:
        into, out = np.zeros(lengths[0], data.dtype), np.full(lengths[1], 99, data.dtype)
    into[:] = data
    return into, out, np.full(scratch, 77, data.dtype)


def expected(spec, rank, size, count, inputs, root, op):
    blocks = []
    for block in range(spec.blocks_out.on(rank, size, root)):
        content = spec.result(rank, block, size, root)
        pieces = [inputs[peer][content.block * count :][:count] for peer in content.ranks]
        result = pieces[0]
        for piece in pieces[1:]:
            result = FOLDS[op](result, piece)
        blocks.append(result / size if op == "avg" and spec.reduces else result)
    return np.concatenate(blocks) if blocks else np.zeros(0)


DRAWN = {
    "size": st.integers(1, 9),
    "count": st.integers(0, 150) | st.integers(0, 9),
    "dtype": st.sampled_from(TYPES),
    "op": st.sampled_from(sorted(FOLDS)),
    "seed": st.integers(0, 2**32 - 1),
    "small_align": st.booleans(),
}


@settings(max_examples=20, deadline=None)
@given(**DRAWN)
def test_packed_plans_do_what_numpy_does(variant, **drawn):
    run_packed_plans(variant, **drawn)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None, derandomize=False, print_blob=True)
@given(**DRAWN)
def test_packed_plans_do_what_numpy_does_whatever_is_drawn(variant, **drawn):
    run_packed_plans(variant, **drawn)


def run_packed_plans(variant, size, count, dtype, op, seed, small_align):
    collective, name, _ = variant
    options = dict(variant.plans(size)[0].options)
    if op == "avg" and not (dtype.startswith("float") and single_fold(collective, name, size, **options)):
        op = "sum"
    spec, numbers, order = COLLECTIVES[collective], np.random.default_rng(seed), random.Random(seed)
    align = 1 if small_align else alignment(np.dtype(dtype).itemsize)
    plans = variant.plans(size, order.randrange(size) if spec.rooted else 0)
    programs = [pack(plan).tolist() for plan in plans]
    root, blocks = plans[0].root, (spec.blocks_in, spec.blocks_out)
    inputs = [numbers.integers(-9, 10, spec.blocks_in.on(r, size, root) * count).astype(dtype) for r in range(size)]
    has_both = [all(buffer.on(r, size, root) for buffer in blocks) for r in range(size)]
    in_place = [spec.in_place is not InPlace.NONE and both and order.random() < 0.5 for both in has_both]
    scratch = programs[0][6] * scratch_stride(count, programs[0][3], align)
    memory = [buffers(spec, r, size, root, count, inputs[r], in_place[r], scratch) for r in range(size)]
    Machine(programs, memory, count, align, op).run(order)
    for rank, (into, out, _) in enumerate(memory):
        np.testing.assert_array_equal(out, expected(spec, rank, size, count, inputs, root, op))
        if not in_place[rank]:
            np.testing.assert_array_equal(into, inputs[rank])
