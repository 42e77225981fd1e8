"""One symbolic run of all ranks' plans.

A Wait names its peer and tokens are matched in order, so plans have no choice in them (they form a marked graph):
whether all ranks finish, which post meets which wait and what comes before what do not depend on the order in which the
steps are run. One run, in any order that the tokens allow, therefore shows what every run does.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from .language import Buffer, Plan, PlanError, Post, Reduce, Ref, Wait


class DeadlockError(PlanError):
    """Ranks wait for one another, or for a rank that has ended."""


class TokenLeftError(PlanError):
    """A post that nobody waited for: the next call would take it for its own."""


def _step(rank: int, number: int) -> str:
    return f"rank {rank}, step {number} of its body"


def run(programs: Sequence[Sequence[object]], where: Callable[[int, int], str] = _step) -> Iterator[tuple[int, int]]:
    """Yield (rank, step number) of every step of all ranks, each after all that it must come after.

    Whatever is neither Post nor Wait is passed through. Raises DeadlockError or TokenLeftError; `where` words a step.
    """
    posted: dict[tuple[int, int], int] = {}  # (from, to) -> posts not waited for yet
    at = [0] * len(programs)
    waiting: dict[int, int] = {}  # rank -> peer
    ready = deque(range(len(programs)))
    while ready:
        rank = ready.popleft()
        for number in range(at[rank], len(programs[rank])):
            step = programs[rank][number]
            if isinstance(step, Wait):
                if not posted.get((step.peer, rank)):
                    waiting[rank] = step.peer
                    break
                posted[step.peer, rank] -= 1
            elif isinstance(step, Post):
                posted[rank, step.peer] = posted.get((rank, step.peer), 0) + 1
                if waiting.get(step.peer) == rank:
                    del waiting[step.peer]
                    ready.append(step.peer)
            at[rank] = number + 1
            yield rank, number
    if waiting:
        raise DeadlockError(_describe(waiting, at, where))
    for (source, target), left in posted.items():
        if left:
            raise TokenLeftError(f"rank {source} posted {left} times more to rank {target} than that one waited for")


def _describe(waiting: Mapping[int, int], at: Sequence[int], where: Callable[[int, int], str]) -> str:
    """Follow who waits for whom from one stuck rank until a rank comes twice or has ended."""
    chain = [min(waiting)]
    while (peer := waiting.get(chain[-1])) is not None and peer not in chain:
        chain.append(peer)
    lines = [f"{where(rank, at[rank])}: waits for rank {waiting[rank]}" for rank in chain if rank in waiting]
    end = "which has ended" if chain[-1] not in waiting else "and so for itself: a cycle"
    return "\n  ".join(lines) + f", {end}"


Sources = tuple[int, ...]
"""Whose data each source of a Reduce holds, as bit masks of ranks."""


def contributions(plans: Sequence[Plan]) -> list[dict[int, set[Sources]]]:
    """Per rank, for each Reduce (by its place in the body): what the sources of its chunks hold.

    Only who contributed is followed here, chunk by chunk; verify.py proves that it is right.
    """
    bodies = [plan.body for plan in plans]
    held: dict[Ref, int] = {}
    found: list[dict[int, set[Sources]]] = [{} for _ in plans]

    def mask(ref: Ref) -> int:
        return 1 << ref.rank if ref.buffer is Buffer.IN else held.get(ref, 0)

    for rank, number in run(bodies):
        step = bodies[rank][number]
        if isinstance(step, Post | Wait):
            continue
        for offset in range(step.n):
            sources = tuple(mask(src._replace(chunk=src.chunk + offset)) for src in step.srcs)
            for dst in step.dsts:
                held[dst._replace(chunk=dst.chunk + offset)] = union(sources)
            if isinstance(step, Reduce):
                found[rank].setdefault(number, set()).add(sources)
    return found


def union(masks: Iterable[int]) -> int:
    """The ranks that are in any of the bit masks."""
    return reduce(or_, masks, 0)


def folds_once(plans: Sequence[Plan]) -> bool:
    """Whether every Reduce sees the contributions of all ranks at once, each by itself, and folds them in rank order.

    Such a result has one rounding, is the same for all algorithms of which this holds, and can be averaged exactly.
    """
    in_order = tuple(1 << rank for rank in range(len(plans)))
    return all(sources == {in_order} for steps in contributions(plans) for sources in steps.values())


def completes(plans: Sequence[Plan]) -> list[frozenset[int]]:
    """Per rank, the Reduce steps (places in the body) whose result is the first to hold all contributions: there avg
    divides. One that passes on a complete result does not complete it again."""
    everybody, complete = (1 << len(plans)) - 1, []
    for plan, steps in zip(plans, contributions(plans), strict=True):
        whole = {
            number: {union(masks) == everybody and everybody not in masks for masks in sources}
            for number, sources in steps.items()
        }
        for number, answers in whole.items():
            if len(answers) > 1:
                step = f"rank {plan.rank}, {plan.body[number]}"
                raise PlanError(f"{step}: complete in some of its chunks, expected in all or in none")
        complete.append(frozenset(number for number, answers in whole.items() if answers == {True}))
    return complete
