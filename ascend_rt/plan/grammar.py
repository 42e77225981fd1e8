"""Which step may stand where: the rules as data, and the check of a plan against them.

Every plan is checked when it is built. The rules are local to one rank's plan; what all plans do together (right data,
no race, no deadlock) is proved by verify.py.
"""

from collections.abc import Callable
from typing import NamedTuple

from .collectives import COLLECTIVES
from .language import Buffer, Copy, DataStep, Plan, PlanError, Post, Reduce, Ref, Step, Wait, everyone


class PlanRule(NamedTuple):
    """What a plan as a whole must be."""

    expected: str
    holds: Callable[[Plan], bool]


class StepRule(NamedTuple):
    """What each step of the given kinds must be."""

    expected: str
    kinds: tuple[type[Step], ...]
    holds: Callable[[Plan, Step], bool]


def chunks_of(plan: Plan, rank: int, buffer: Buffer) -> int:
    """How many chunks a buffer of `rank` has."""
    if buffer is Buffer.SCRATCH:
        return plan.scratch
    blocks = plan.spec.blocks_in if buffer is Buffer.IN else plan.spec.blocks_out
    return blocks.on(rank, plan.size, plan.root) * plan.chunks


def _refs(step: Step) -> tuple[Ref, ...]:
    return (*step.dsts, *step.srcs) if isinstance(step, DataStep) else ()


def _user_refs(step: Step) -> list[Ref]:
    return [ref for ref in _refs(step) if ref.buffer is not Buffer.SCRATCH]


def _has_root_as_table_says(plan: Plan) -> bool:
    return plan.root in range(plan.size if plan.spec.rooted else 1)


def _has_chunks(plan: Plan) -> bool:
    return plan.chunks >= 1 and plan.scratch >= 0


def _moves_what_exists(plan: Plan) -> bool:
    return plan.touches or not any(isinstance(step, DataStep) for step in plan.steps)


def _begins_with_enter(plan: Plan) -> bool:
    enter = everyone(plan.rank, plan.size)
    return plan.steps[: len(enter)] == enter


def _ends_with_leave(plan: Plan) -> bool:
    leave = everyone(plan.rank, plan.size)
    body_end = len(plan.steps) - len(leave)
    return not plan.touches or (body_end >= len(leave) and plan.steps[body_end:] == leave)


def _peer_exists(plan: Plan, step: Step) -> bool:
    return isinstance(step, Post | Wait) and step.peer in range(plan.size) and step.peer != plan.rank


def _has_length(plan: Plan, step: Step) -> bool:
    return isinstance(step, DataStep) and step.n >= 1


def _has_ends(plan: Plan, step: Step) -> bool:
    return isinstance(step, DataStep) and bool(step.srcs) and bool(step.dsts) and len(set(step.dsts)) == len(step.dsts)


def _in_range(plan: Plan, step: Step) -> bool:
    return isinstance(step, DataStep) and all(
        ref.rank in range(plan.size) and 0 <= ref.chunk <= chunks_of(plan, ref.rank, ref.buffer) - step.n
        for ref in _refs(step)
    )


def _congruent(plan: Plan, step: Step) -> bool:
    return len({ref.chunk % plan.chunks for ref in _user_refs(step)}) <= 1


def _scratch_singly(plan: Plan, step: Step) -> bool:
    return isinstance(step, DataStep) and (step.n == 1 or len(_user_refs(step)) == len(_refs(step)))


def _leaves_input(plan: Plan, step: Step) -> bool:
    return isinstance(step, DataStep) and all(ref.buffer is not Buffer.IN for ref in step.dsts)


def _may_reduce(plan: Plan, step: Step) -> bool:
    return plan.spec.reduces


PLAN_RULES = (
    PlanRule("a collective of the table", lambda plan: plan.collective in COLLECTIVES),
    PlanRule("a rank of 0..size-1", lambda plan: plan.rank in range(plan.size)),
    PlanRule("a root of 0..size-1, or 0 where there is none", _has_root_as_table_says),
    PlanRule("at least one chunk per block and no negative scratch", _has_chunks),
    PlanRule("no data steps in a collective without data", _moves_what_exists),
    PlanRule("enter first: a post to every peer, then a wait for every peer", _begins_with_enter),
    PlanRule("leave last, if there are data: a post to every peer, then a wait for every peer", _ends_with_leave),
)

TOKENS = (Post, Wait)
DATA = (Copy, Reduce)
STEP_RULES = (
    StepRule("a peer: another rank of the communicator", TOKENS, _peer_exists),
    StepRule("n >= 1 chunks", DATA, _has_length),
    StepRule("at least one source and one destination, no destination twice", DATA, _has_ends),
    StepRule("chunks inside the buffers of ranks 0..size-1", DATA, _in_range),
    StepRule("chunks of IN and OUT that are all at the same place of their block: one length", DATA, _congruent),
    StepRule("one chunk at a time where scratch is involved: its chunks lie further apart", DATA, _scratch_singly),
    StepRule("no chunk of IN as destination: the caller's data stay", DATA, _leaves_input),
    StepRule("no Reduce in a collective that does not reduce", (Reduce,), _may_reduce),
)

_RULES_OF = {kind: [law for law in STEP_RULES if kind in law.kinds] for kind in (*TOKENS, *DATA)}


def check(plan: Plan) -> None:
    """Raise PlanError, naming the rank, the step and what was expected, if the plan breaks a rule."""
    name = f"{plan.collective}/{plan.algorithm}: rank {plan.rank}"
    for rule in PLAN_RULES:
        if not rule.holds(plan):
            raise PlanError(f"{name} of {plan.size}, root {plan.root}: expected {rule.expected}")
    for number, step in enumerate(plan.body, start=len(everyone(plan.rank, plan.size))):
        for law in _RULES_OF[type(step)]:
            if not law.holds(plan, step):
                raise PlanError(f"{name}, step {number}, {step}: expected {law.expected}")
