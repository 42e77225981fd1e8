"""What the prover says about small wrong plans, written by hand."""

from dataclasses import replace

import pytest

from ascend_rt.plan import Builder, Copy, Plan, PlanError, Post, Wait, build_all
from ascend_rt.plan.language import everyone
from ascend_rt.plan.layout import Call
from ascend_rt.plan.symbolic import DeadlockError, TokenLeftError
from ascend_rt.plan.verify import DataError, RaceError, prove

pytestmark = pytest.mark.proof


class ByHand(Builder):
    """Every step where it is written, tokens as well."""

    def __init__(self, rank, size, root):
        super().__init__(rank, size, root)
        self.steps = []

    def enter(self):
        self.steps += everyone(self.rank, self.size)

    leave = enter

    def copy(self, dst, src, n=1):
        self.steps.append(Copy(dst, src, n))

    def post(self, peer):
        self.steps.append(Post(peer))

    def wait(self, peer):
        self.steps.append(Wait(peer))


def plans_of(collective, size, write, chunks=1, scratch=0):
    """The plans that `write(p)` gives, not checked against the grammar."""
    plans = []
    for rank in range(size):
        p = ByHand(rank, size, 0)
        p.cut(chunks)
        write(p)
        plans.append(Plan(collective, "wrong", rank, size, 0, chunks, scratch, (), tuple(p.steps)))
    return tuple(plans)


def test_deadlock_tells_the_cycle():
    def write(p):
        p.enter()
        p.wait((p.rank - 1) % p.size)
        p.post((p.rank + 1) % p.size)

    with pytest.raises(DeadlockError) as caught:
        prove(Call(plans_of("barrier", 3, write), 0))
    lines = str(caught.value).splitlines()
    assert [line.split("rank ")[1][0] for line in lines] == ["0", "2", "1"]
    assert "step 4, Wait(for rank 2): waits for rank 2" in lines[0]
    assert lines[-1].endswith("a cycle")


def test_deadlock_tells_who_has_ended():
    def write(p):
        p.enter()
        if p.rank == 1:
            p.wait(0)

    with pytest.raises(DeadlockError, match="waits for rank 0, which has ended"):
        prove(Call(plans_of("barrier", 2, write), 0))


def test_token_left_over():
    def write(p):
        p.enter()
        if p.rank == 1:
            p.post(0)

    with pytest.raises(TokenLeftError, match="rank 1 posted 1 times more to rank 0"):
        prove(Call(plans_of("barrier", 2, write), 0))


def test_race_tells_both_steps():
    def write(p):
        p.enter()
        p.copy(p.out(p.rank), p.inp(p.root))

    with pytest.raises(RaceError) as caught:
        prove(Call(plans_of("broadcast", 2, write), 4))
    assert "rank 0, its program after the call: writes what was read by" in str(caught.value)
    assert "rank 1, step 2, Copy(OUT[0] of rank 1 <- IN[0] of rank 0, n=1)" in str(caught.value)


def test_barrier_that_lets_a_rank_go_early():
    def write(p):
        if p.rank == 0:
            p.post(1)
        else:
            p.wait(0)

    with pytest.raises(DataError, match=r"rank 0, .*left before ranks \[1\] had entered"):
        prove(Call(plans_of("barrier", 2, write), 0))


def test_input_must_stay_unless_in_place():
    def write(p):
        p.enter()
        for buffer in (p.inp, p.out):
            if p.rank != p.root:
                p.copy(buffer(p.rank), p.inp(p.root))
        if p.rank == p.root:
            p.copy(p.out(p.rank), p.inp(p.rank))
        p.leave()

    plans = plans_of("broadcast", 2, write)
    prove(Call(plans, 3, in_place=frozenset({1})))
    with pytest.raises(DataError, match=r"rank 1, .*IN holds"):
        prove(Call(plans, 3))


def test_scratch_read_past_what_was_stored():
    """The chunks of 3 elements cut in 2 are 1 and 2 long: the longer one finds only one element in scratch."""

    def write(p):
        p.enter()
        if p.rank == 0:
            p.copy(p.scratch(0), p.inp(0, 0))
            p.copy(p.out(0, 0), p.scratch(0))
            p.copy(p.out(0, 1), p.scratch(0))
        p.leave()

    with pytest.raises(DataError, match=r"step 4, .*expected one value in all of the source"):
        prove(Call(plans_of("broadcast", 2, write, chunks=2, scratch=1), 3))


def test_ranges_of_a_step_that_overlap():
    def write(p):
        p.enter()
        p.copy(p.out(0, 0), p.inp(0, 0), n=2)
        p.copy(p.out(0, 1), p.out(0, 0), n=2)
        p.leave()

    with pytest.raises(DataError, match="disjoint or the same"):
        prove(Call(plans_of("broadcast", 1, write, chunks=3), 6))


def test_own_copy_in_place_is_no_access():
    """Everybody reads the block that its owner, in place, copies onto itself: no race, for the executor skips it."""
    prove(Call(build_all("all_gather", "mesh", 3), 4, in_place=frozenset(range(3))))


def scratch_without_leave(p):
    """Rank 1 takes rank 0's data by way of rank 0's scratch, and nobody waits for rank 1 to have read it."""
    p.enter()
    p.copy(p.scratch(p.rank), p.inp(p.rank))
    p.post(1 - p.rank)
    p.wait(1 - p.rank)
    p.copy(p.out(p.rank), p.scratch(0))


def test_scratch_used_again_too_early_is_found_in_the_second_call():
    plans = plans_of("broadcast", 2, scratch_without_leave, scratch=1)
    prove(Call(plans, 4))
    prove(Call(plans, 4), Call(plans, 4))  # entering the next call protects it as well
    hasty = tuple(replace(plan, steps=plan.steps[2:]) for plan in plans)
    prove(Call(hasty, 4))
    with pytest.raises(RaceError, match=r"call 1 .*writes what was read by"):
        prove(Call(hasty, 4), Call(hasty, 4))


def test_errors_name_the_call():
    with pytest.raises(PlanError, match=r"call 0 \(broadcast/wrong of 2 ranks, count 3, align 2, in place on \[1\]\)"):
        prove(Call(plans_of("broadcast", 2, lambda p: p.enter()), 3, 2, frozenset({1})))
