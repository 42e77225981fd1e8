"""Seeded faults: every single one must be caught.

Faults in what is moved and in who waits for whom are shown to the prover alone. Only steps exchanged with a neighbour
may be caught by the grammar instead: around enter and leave some of these faults touch no data.
"""

from dataclasses import replace
from itertools import groupby, pairwise

import pytest

from ascend_rt.plan import Buffer, Copy, InPlace, PlanError, Post, Reduce, Wait, build_all, check
from ascend_rt.plan.grammar import chunks_of
from ascend_rt.plan.language import everyone
from ascend_rt.plan.layout import Call
from ascend_rt.plan.symbolic import DeadlockError, TokenLeftError
from ascend_rt.plan.verify import DataError, RaceError, prove

pytestmark = pytest.mark.proof


def error_of(plans):
    """What the prover says to two calls in a row, in place nowhere or everywhere; None if it finds nothing wrong."""
    everywhere = frozenset() if plans[0].spec.in_place is InPlace.NONE else frozenset(range(len(plans)))
    for in_place in (frozenset(), everywhere):
        call = Call(plans, 2 * plans[0].chunks + 1, in_place=in_place)
        try:
            prove(call, call)
        except PlanError as error:
            return error
    return None


def with_steps(plans, rank, steps):
    return (*plans[:rank], replace(plans[rank], steps=tuple(steps)), *plans[rank + 1 :])


def drop(plans, kind):
    """All plans, once without each step of `kind`."""
    for rank, plan in enumerate(plans):
        for number, step in enumerate(plan.steps):
            if isinstance(step, kind):
                yield with_steps(plans, rank, plan.steps[:number] + plan.steps[number + 1 :])


def drop_matched_pairs(plans):
    """All plans, once without each token of the bodies: its Post and its Wait."""
    for rank, plan in enumerate(plans):
        edge = len(everyone(rank, len(plans)))
        for number, step in enumerate(plan.body, start=edge):
            if isinstance(step, Post):
                nth = sum(step == earlier for earlier in plan.steps[:number])
                waits = [place for place, other in enumerate(plans[step.peer].steps) if other == Wait(rank)]
                without = with_steps(plans, rank, plan.steps[:number] + plan.steps[number + 1 :])
                steps = plans[step.peer].steps
                yield with_steps(without, step.peer, steps[: waits[nth]] + steps[waits[nth] + 1 :])


def replaced_refs(plans, other):
    """All plans, once with each reference replaced by each of those that `other(plan, ref, n, is_dst)` gives."""
    for rank, plan in enumerate(plans):
        for number, step in enumerate(plan.steps):
            if not isinstance(step, Copy | Reduce):
                continue
            for place, ref in enumerate(refs := [*step.dsts, *step.srcs]):
                for wrong in other(plan, ref, step.n, place < len(step.dsts)):
                    changed = [*refs[:place], wrong, *refs[place + 1 :]]
                    new = with_refs(step, changed)
                    yield with_steps(plans, rank, [*plan.steps[:number], new, *plan.steps[number + 1 :]])


def with_refs(step, refs):
    if isinstance(step, Copy):
        return Copy(refs[0], refs[1], step.n)
    return Reduce(tuple(refs[: len(step.dsts)]), tuple(refs[len(step.dsts) :]), step.n)


def other_chunks(plan, ref, n, is_dst):
    return [ref._replace(chunk=c) for c in range(chunks_of(plan, ref.rank, ref.buffer) - n + 1) if c != ref.chunk]


def other_ranks(plan, ref, n, is_dst):
    """Not for sources in OUT and scratch: other ranks often have the same data there, and tokens say so."""
    if ref.buffer is not Buffer.IN and not is_dst:
        return []
    others = [ref._replace(rank=rank) for rank in range(plan.size) if rank != ref.rank]
    return [other for other in others if ref.chunk + n <= chunks_of(plan, other.rank, other.buffer)]


def early_tokens(plans):
    """All plans, once with each Post done before the data steps it follows, and each Wait after those it precedes."""
    for rank, plan in enumerate(plans):
        runs = [(kind, list(run)) for kind, run in groupby(plan.steps, lambda step: isinstance(step, Copy | Reduce))]
        for (moves, run), (_, following) in pairwise(runs):
            before = [step for _, earlier in runs[: index_of(runs, run)] for step in earlier]
            after = [step for _, later in runs[index_of(runs, following) + 1 :] for step in later]
            wrong_type = Post if moves else Wait
            for place, token in enumerate(following if moves else run):
                if isinstance(token, wrong_type):
                    if moves:
                        changed = [*before, token, *run, *following[:place], *following[place + 1 :], *after]
                    else:
                        changed = [*before, *run[:place], *run[place + 1 :], *following, token, *after]
                    yield with_steps(plans, rank, changed)


def index_of(runs, run):
    return next(place for place, (_, other) in enumerate(runs) if other is run)


def without_leave(plans):
    return tuple(replace(p, steps=p.steps[: len(p.steps) - len(everyone(p.rank, p.size))]) for p in plans)


MOST_FAULTS = 1000
"""Of more, some are left out: chunks replaced by each of many others."""


def usual_sizes(variant):
    """Two servers of two ranks where there are servers; a number of ranks that is no power of two elsewhere."""
    return {None: (3,), "in two": (), "in threes": (4,), "unequal": (4,)}[variant.servers]


def faulty(variant, cases, sizes, seeder, *args):
    programs = [program for size in sizes for program in cases.programs(variant, size)]
    faults = [fault for program in programs for fault in seeder(program, *args)]
    return faults[:: len(faults) // MOST_FAULTS + 1]


def assert_all_caught(faults, kinds):
    errors = [error_of(plans) for plans in faults]
    missed = ["\n".join(map(str, plans)) for plans, error in zip(faults, errors, strict=True) if error is None]
    assert not missed, f"{len(missed)} of {len(faults)} faults pass; the first:\n{missed[0]}"
    assert {type(error) for error in errors} <= set(kinds)


def every_dropped_token(variant, cases, sizes):
    waits, posts = (faulty(variant, cases, sizes, drop, kind) for kind in (Wait, Post))
    assert len(waits) == len(posts) >= sum(size * (size - 1) for size in sizes)
    if variant.algorithm == "pairwise":
        waits, posts = (faults[:: len(faults) - 1] for faults in (waits, posts))  # it paces with tokens
    assert_all_caught(waits, {TokenLeftError, RaceError, DataError})
    assert_all_caught(posts, {DeadlockError, RaceError, DataError})


def every_wrong_move(variant, cases, sizes):
    assert_all_caught(faulty(variant, cases, sizes, drop, (Copy, Reduce)), {DataError})
    assert_all_caught(faulty(variant, cases, sizes, replaced_refs, other_chunks), {DataError, RaceError})
    assert_all_caught(faulty(variant, cases, sizes, replaced_refs, other_ranks), {DataError, RaceError})


def every_needless_or_early_token(variant, cases, sizes):
    """Without its Wait no Post may be missing either: no algorithm has a token that it can do without."""
    if variant.algorithm == "pairwise":
        return
    assert_all_caught(faulty(variant, cases, sizes, drop_matched_pairs), {RaceError, DataError})
    for plans in faulty(variant, cases, sizes, early_tokens):
        try:
            for plan in plans:
                check(plan)
        except PlanError:
            continue
        assert error_of(plans) is not None, "\n".join(map(str, plans))


SEEDERS = [every_dropped_token, every_wrong_move, every_needless_or_early_token]


def test_every_fault_at_one_size(some_variant, cases):
    for every_fault in SEEDERS:
        every_fault(some_variant, cases, usual_sizes(some_variant))


@pytest.mark.thorough
@pytest.mark.parametrize("every_fault", SEEDERS)
def test_every_fault(variant, cases, every_fault):
    every_fault(variant, cases, (2, 3, *([4] if variant.servers else [])))


def test_no_leave(variant, cases):
    if variant.collective != "barrier":
        plans = [without_leave(plans) for plans in cases.programs(variant, 4)]
        assert_all_caught(plans[:1], {RaceError, DataError})


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter"])
def test_fold_in_another_order_than_that_of_the_ranks(collective):
    plans = build_all(collective, "mesh", 3)
    for rank, plan in enumerate(plans):
        steps = [replace(s, srcs=s.srcs[::-1]) if isinstance(s, Reduce) else s for s in plan.steps]
        error = error_of(with_steps(plans, rank, steps))
        assert isinstance(error, DataError)
        assert "rank order" in str(error)


def test_source_twice():
    plans = build_all("all_reduce", "mesh", 3)
    steps = [replace(s, srcs=(*s.srcs, s.srcs[0])) if isinstance(s, Reduce) else s for s in plans[0].steps]
    assert "each contribution once" in str(error_of(with_steps(plans, 0, steps)))


def test_plan_of_another_rank_or_algorithm():
    mesh, ring = build_all("all_reduce", "mesh", 3), build_all("broadcast", "ring", 3)
    with pytest.raises(PlanError, match="rank 1"):
        prove(Call((mesh[0], mesh[2], mesh[1]), 7))
    with pytest.raises(PlanError, match="rank 2"):
        prove(Call((*mesh[:2], ring[2]), 7))
