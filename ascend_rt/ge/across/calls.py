"""Collectives of one communicator: every rank must have the same ones in the same order, with the same arguments.

Nodes of a graph are listed in the order in which a communicator's calls are issued, so a rank's calls are a sequence,
on whatever streams they are. Only the first position in which the sequences differ is told: what comes behind it is
shifted by it.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...diag.disagreement import Statement, describe, describe_uneven
from ...plan.collectives import COLLECTIVES
from ...plan.split import NUMBERS, split_spec
from ..dag import Dag
from ..nodes import Collective, Node
from .finding import Finding, Kind, place, where

NO_CALL = "no further call"


class Communicator(NamedTuple):
    """A communicator of the job; several may have the same name if no rank is in two of them."""

    name: str
    members: tuple[int, ...]
    """ranks of the job, by rank in it"""

    @property
    def told_members(self) -> tuple[int, ...] | None:
        """As diag words them: None if ranks are the same in it as in the job."""
        return None if self.members == tuple(range(len(self.members))) else self.members


Calls = Mapping[int, Sequence[Node]]
"""Its nodes of one kind, by rank of the job, in the order of issue."""


@dataclass(frozen=True, slots=True)
class Said:
    """What ranks must agree on in a call; None where it has no such argument."""

    call: str
    dtype: str
    count: int | None
    op: str | None
    root: int | None


def said(task: Collective) -> Said:
    """What a call says to the other ranks. ValueError: there is no such collective."""
    if task.call in NUMBERS:
        spec, count = split_spec(task.call), None
    elif task.call in COLLECTIVES:
        spec, count = COLLECTIVES[task.call], task.count
    else:
        raise ValueError(f"a collective {task.call!r}; expected {', '.join([*COLLECTIVES, *NUMBERS])}")
    if task.call == "barrier":
        return Said(task.call, "", None, None, None)
    return Said(task.call, task.dtype, count, task.op if spec.reduces else None, task.root if spec.rooted else None)


def changed_calls(before: Sequence[Node], nodes: Sequence[Node]) -> set[str]:
    """Communicators whose ranks would not say the same any more if these nodes were in the places of those before."""
    pairs = [(old.task, new.task) for old, new in zip(before, nodes, strict=True)]
    calls = [(old, new) for old, new in pairs if isinstance(old, Collective) and isinstance(new, Collective)]
    moved = [task.communicator for pair in calls if pair[0].communicator != pair[1].communicator for task in pair]
    return {*moved, *(new.communicator for old, new in calls if said(old) != said(new))}


def collectives(graphs: Mapping[int, Dag], communicator: Communicator) -> Calls:
    """The calls of each member, in the order of issue."""
    return {
        rank: [
            node
            for node in graphs[rank].nodes
            if isinstance(node.task, Collective) and node.communicator == communicator.name
        ]
        for rank in communicator.members
    }


def check_calls(communicator: Communicator, calls: Calls) -> Iterator[Finding]:
    """At most one finding."""
    sequences = {rank: [said(_task(node)) for node in nodes] for rank, nodes in calls.items()}
    longest = max(map(len, sequences.values()), default=0)
    for number in range(longest):
        if len({_at(sequence, number) for sequence in sequences.values()}) > 1:
            yield _differing(communicator, calls, sequences, number)
            return
    for number in range(longest):
        at = {rank: nodes[number] for rank, nodes in calls.items()}
        uneven = _uneven(communicator, at, number)
        if uneven is not None:
            yield uneven
            return


def _task(node: Node) -> Collective:
    assert isinstance(node.task, Collective)
    return node.task


def _at(sequence: Sequence[Said], number: int) -> Said | None:
    return sequence[number] if number < len(sequence) else None


def _differing(
    communicator: Communicator, calls: Calls, sequences: Mapping[int, Sequence[Said]], number: int
) -> Finding:
    at = {rank: _at(sequence, number) for rank, sequence in sequences.items()}
    odd, usual = _odd_ones(at)
    statements = [_statement(own, calls[rank], number, at[rank]) for own, rank in enumerate(communicator.members)]
    text = describe(statements, -1, communicator.name, communicator.told_members)
    if usual is not None:
        hints = [_hint(rank, sequences[rank], sequences[usual], number) for rank in odd]
        if any(hints):
            story, _, _ = text.rpartition("\n")  # the advice speaks of arguments, which are not what is wrong
            text = "\n".join([story, *filter(None, hints)])
    places = tuple(place(rank, calls[rank][number]) for rank in odd if number < len(calls[rank]))
    return Finding(Kind.CALLS, odd, places, text)


def _odd_ones(at: Mapping[int, Said | None]) -> tuple[tuple[int, ...], int | None]:
    """Ranks that do not do as more than half of them, and one that does; all of them if there is no such half."""
    what, times = Counter(at.values()).most_common(1)[0]
    if 2 * times <= len(at):
        return tuple(sorted(at)), None
    odd = tuple(sorted(rank for rank, call in at.items() if call != what))
    return odd, next(rank for rank, call in at.items() if call == what)


def _statement(rank: int, nodes: Sequence[Node], number: int, call: Said | None) -> Statement:
    if call is None:
        return Statement(rank, number + 1, NO_CALL, None, "", None, None, 0)
    return Statement(
        rank, number + 1, call.call, call.count, call.dtype, call.op, call.root, 0, where=where(nodes[number])
    )


def _hint(rank: int, own: Sequence[Said], expected: Sequence[Said], number: int) -> str:
    """What most likely happened to the odd rank's sequence, "" if that cannot be told."""
    call = f"call #{number + 1}"
    if own[number:] == expected[number + 1 :]:
        return f"rank {rank} lacks {call}: without it, all of its calls are those of the others."
    if own[number + 1 :] == expected[number:]:
        return f"rank {rank} has {call} beyond those of the others: without it, all of its calls are theirs."
    if own[number : number + 2] == [*expected[number + 1 : number + 2], expected[number]]:
        return f"rank {rank} makes calls #{number + 1} and #{number + 2} in the other order."
    return ""


def _uneven(communicator: Communicator, at: Mapping[int, Node], number: int) -> Finding | None:
    """Two ranks of a call whose blocks differ in count, one of which expects what the other does not send."""
    tasks = [_task(at[rank]) for rank in communicator.members]
    for sender, receiver in itertools.product(range(len(tasks)), repeat=2):
        sent, expected = _sent(tasks[sender], receiver), _expected(tasks[receiver], sender)
        if sent != expected:
            statements = [
                Statement(own, number + 1, task.call, None, task.dtype, said(task).op, None, 0, where=where(at[rank]))
                for own, (rank, task) in enumerate(zip(communicator.members, tasks, strict=True))
            ]
            uneven = sender, receiver, sent, expected
            text = describe_uneven(statements, -1, communicator.name, uneven, communicator.told_members)
            pair = sorted({communicator.members[sender], communicator.members[receiver]})
            return Finding(Kind.COUNTS, tuple(pair), tuple(place(rank, at[rank]) for rank in pair), text)
    return None


def _sent(task: Collective, to: int) -> int:
    """The elements for a rank; 0 in a call whose blocks are all alike."""
    if task.split is None:
        return 0
    return task.split[0][to if split_spec(task.call).blocks_in.per_rank else 0]


def _expected(task: Collective, source: int) -> int:
    """The elements from a rank; 0 in a call whose blocks are all alike."""
    if task.split is None:
        return 0
    return task.split[2][source if split_spec(task.call).blocks_out.per_rank else 0]
