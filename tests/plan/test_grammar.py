"""Every rule of the grammar: a plan that keeps it and a plan that breaks it, and what is said then."""

from dataclasses import replace

import pytest

from ascend_rt.plan import Buffer, Copy, PlanError, Post, Reduce, Ref, Wait, build, check
from ascend_rt.plan.builder import Builder
from ascend_rt.plan.grammar import PLAN_RULES, STEP_RULES
from ascend_rt.plan.language import everyone

pytestmark = pytest.mark.proof

GOOD = build("all_reduce", "ring", 1, 3)
GATHER = build("all_gather", "mesh", 0, 2)


def inp(rank, chunk=0):
    return Ref(rank, Buffer.IN, chunk)


def out(rank, chunk=0):
    return Ref(rank, Buffer.OUT, chunk)


def scratch(rank, chunk=0):
    return Ref(rank, Buffer.SCRATCH, chunk)


def with_body(plan, *steps):
    edge = everyone(plan.rank, plan.size)
    return replace(plan, steps=(*edge, *steps, *edge))


BROKEN_PLANS = {
    "a collective of the table": replace(GOOD, collective="reverse"),
    "a rank of 0..size-1": replace(GOOD, rank=3),
    "a root of 0..size-1": replace(GOOD, root=1),
    "at least one chunk per block": replace(GOOD, chunks=0),
    "no data steps in a collective without data": replace(GOOD, collective="barrier"),
    "enter first": replace(GOOD, steps=GOOD.steps[1:]),
    "leave last": replace(GOOD, steps=GOOD.steps[:-1]),
}

BROKEN_STEPS = {
    "a peer: another rank of the communicator": [Post(1), Wait(3), Post(-1)],
    "n >= 1 chunks": [Copy(out(0), inp(0), 0)],
    "at least one source and one destination": [
        Reduce((), (inp(0),)),
        Reduce((out(0),), ()),
        Reduce((out(0),) * 2, (inp(0),)),
    ],
    "chunks inside the buffers": [
        Copy(out(3), inp(0)),
        Copy(out(0, 3), inp(0)),
        Copy(out(0), inp(0), 4),
        Copy(out(0), scratch(1)),
    ],
    "all at the same place of their block": [Copy(out(0, 1), inp(0)), Reduce((scratch(0),), (inp(0), out(0, 1)))],
    "one chunk at a time where scratch is involved": [Copy(out(0), scratch(0), 2)],
    "no chunk of IN as destination": [Copy(inp(0), out(0))],
}


def test_every_rule_is_broken_here():
    broken = {*BROKEN_PLANS, *BROKEN_STEPS, "no Reduce in a collective that does not reduce"}
    for rule in (*PLAN_RULES, *STEP_RULES):
        assert sum(rule.expected.startswith(words) or words in rule.expected for words in broken) == 1, rule.expected


@pytest.mark.parametrize("expected", BROKEN_PLANS)
def test_plan_rules(expected):
    check(GOOD)
    with pytest.raises(PlanError, match=f"rank {BROKEN_PLANS[expected].rank} of 3.*expected {expected}"):
        check(BROKEN_PLANS[expected])


@pytest.mark.parametrize("expected", BROKEN_STEPS)
def test_step_rules(expected):
    plan = replace(GOOD, scratch=0 if expected.startswith("chunks inside") else 2)
    check(plan)
    for step in BROKEN_STEPS[expected]:
        with pytest.raises(PlanError, match=f"all_reduce/ring: rank 1, step 5, .*expected .*{expected}"):
            check(with_body(plan, GOOD.steps[4], step))


def test_reduce_only_where_something_is_reduced():
    with pytest.raises(PlanError, match="no Reduce in a collective that does not reduce"):
        check(with_body(GATHER, Reduce((out(0),), (inp(0), inp(1)))))


def test_from_scratch_to_scratch_any_chunks_have_one_length():
    plan = replace(GOOD, scratch=2)
    check(with_body(plan, Copy(scratch(0), scratch(0, 1))))


def test_a_plan_without_leave_may_only_be_one_without_data():
    enter = everyone(0, 2)
    check(replace(build("barrier", "mesh", 0, 2), steps=enter))
    for steps in (enter, (*enter, Copy(out(0), inp(0)))):
        with pytest.raises(PlanError, match="leave last"):
            check(replace(GATHER, steps=steps))


def test_one_exchange_is_not_enter_and_leave_at_once():
    alone = build("all_gather", "mesh", 0, 1)
    check(alone)
    with pytest.raises(PlanError, match="enter first"):
        check(replace(GATHER, steps=(Copy(out(0), inp(0)), *everyone(0, 2))))


def test_cut_comes_before_the_first_step():
    p = Builder(2, 3, 0)
    p.cut(4)
    p.enter()
    with pytest.raises(PlanError, match=r"rank 2: cut\(3\) after the first step"):
        p.cut(3)
