"""Seeded faults: every single one must be caught.

Faults in what is moved and in who waits for whom are shown to the prover alone. Only steps exchanged with a neighbour
may be caught by the grammar instead: around enter and leave some of these faults touch no data.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from ascend_rt.plan import Buffer, Copy, InPlace, PlanError, Post, Reduce, Wait, build_all, check
from ascend_rt.plan.grammar import chunks_of
from ascend_rt.plan.language import everyone
from ascend_rt.plan.layout import Call
from ascend_rt.plan.symbolic import DeadlockError, TokenLeftError
from ascend_rt.plan.verify import DataError, RaceError, prove

pytestmark = pytest.mark.proof

SIZES = (2, 3, 4)


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
    """Not for sources in OUT: a rank further round the ring often has the same data, and tokens say so."""
    if ref.buffer is Buffer.OUT and not is_dst:
        return []
    others = [ref._replace(rank=rank) for rank in range(plan.size) if rank != ref.rank]
    return [other for other in others if ref.chunk + n <= chunks_of(plan, other.rank, other.buffer)]


def exchange_neighbours(plans):
    """All plans, once with each Post done before the data step it follows, and each Wait after the one it precedes."""
    for rank, plan in enumerate(plans):
        for number, (step, following) in enumerate(pairwise(plan.steps)):
            moves = isinstance(step, Copy | Reduce), isinstance(following, Copy | Reduce)
            if (moves[0] and isinstance(following, Post)) or (isinstance(step, Wait) and moves[1]):
                yield with_steps(plans, rank, [*plan.steps[:number], following, step, *plan.steps[number + 2 :]])


def without_leave(plans):
    return tuple(replace(p, steps=p.steps[: len(p.steps) - len(everyone(p.rank, p.size))]) for p in plans)


def faulty(small_variant, cases, seeder, *args):
    plans = [plans for size in SIZES for plans in cases.programs(small_variant, size)]
    return [fault for program in plans for fault in seeder(program, *args)]


def assert_all_caught(faults, kinds):
    errors = [error_of(plans) for plans in faults]
    missed = ["\n".join(map(str, plans)) for plans, error in zip(faults, errors, strict=True) if error is None]
    assert not missed, f"{len(missed)} of {len(faults)} faults pass; the first:\n{missed[0]}"
    assert {type(error) for error in errors} <= set(kinds)


def test_every_dropped_wait(small_variant, cases):
    faults = faulty(small_variant, cases, drop, Wait)
    assert len(faults) >= 2 + 6 + 12
    assert_all_caught(faults, {TokenLeftError, RaceError, DataError})


def test_every_dropped_post(small_variant, cases):
    faults = faulty(small_variant, cases, drop, Post)
    assert len(faults) >= 2 + 6 + 12
    assert_all_caught(faults, {DeadlockError, RaceError, DataError})


def test_every_dropped_data_step(small_variant, cases):
    assert_all_caught(faulty(small_variant, cases, drop, (Copy, Reduce)), {DataError})


def test_every_dropped_token_of_the_bodies(small_variant, cases):
    """Also with its Wait dropped no Post may be missing: algorithms have no token that they can do without."""
    assert_all_caught(faulty(small_variant, cases, drop_matched_pairs), {RaceError, DataError})


def test_every_wrong_chunk(small_variant, cases):
    assert_all_caught(faulty(small_variant, cases, replaced_refs, other_chunks), {DataError, RaceError})


def test_every_wrong_rank(small_variant, cases):
    assert_all_caught(faulty(small_variant, cases, replaced_refs, other_ranks), {DataError, RaceError})


def test_every_exchange_of_neighbouring_steps(small_variant, cases):
    for plans in faulty(small_variant, cases, exchange_neighbours):
        try:
            for plan in plans:
                check(plan)
        except PlanError:
            continue
        assert error_of(plans) is not None, "\n".join(map(str, plans))


def test_no_leave(small_variant, cases):
    programs = [without_leave(plans) for size in SIZES for plans in cases.programs(small_variant, size)]
    if small_variant[0] != "barrier":
        assert_all_caught(programs, {RaceError, DataError})


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
    mesh, ring = build_all("all_reduce", "mesh", 3), build_all("broadcast", "ring", 3, pieces=3)
    with pytest.raises(PlanError, match="rank 1"):
        prove(Call((mesh[0], mesh[2], mesh[1]), 7))
    with pytest.raises(PlanError, match="rank 2"):
        prove(Call((*mesh[:2], ring[2]), 7))
