"""Messages: what a rank sends to another must be what that one receives from it.

Messages of one communicator from one rank to another are matched in the order of issue, which is the order in which
nodes are listed, and in a batch that of its list. There is no order between other messages.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from ...diag.disagreement import Statement, describe_transfer
from ...diag.failure import rank_name
from ..dag import Dag
from ..nodes import Message, Node, Transfer
from .calls import Communicator
from .finding import Finding, Kind, Place, place, where


class Side(NamedTuple):
    """One side of a message."""

    rank: int
    """of the job"""
    node: Node
    message: Message


class Match(NamedTuple):
    """A message of which both sides are there."""

    sender: Side
    receiver: Side
    number: int
    """of the messages from one of the ranks to the other, from 1"""


Pair = tuple[int, int]
"""Who sends and who receives: ranks in the communicator."""


def matches(graphs: Mapping[int, Dag], communicator: Communicator) -> dict[Pair, list[Match]]:
    """The messages that have both sides."""
    sent, received = _sides(graphs, communicator)
    return {
        pair: [
            Match(*both, number) for number, both in enumerate(zip(sent[pair], received.get(pair, ()), strict=False), 1)
        ]
        for pair in sent
    }


def check_messages(graphs: Mapping[int, Dag], communicator: Communicator) -> Iterator[Finding]:
    """At most one finding for each pair of ranks and direction: the first."""
    for rank in communicator.members:
        yield from _wrong_peers(communicator, rank, graphs[rank])
    sent, received = _sides(graphs, communicator)
    size = len(communicator.members)
    for pair in sorted(pair for pair in {*sent, *received} if min(pair) >= 0 and max(pair) < size):
        sides = zip_longest(sent.get(pair, ()), received.get(pair, ()))
        for number, (sender, receiver) in enumerate(sides, 1):
            if sender is None or receiver is None:
                yield _unmatched(communicator, pair, sender, receiver, number)
                break
            if _differ(sender.message, receiver.message):
                yield _differing(communicator, pair, Match(sender, receiver, number))
                break


def _sides(
    graphs: Mapping[int, Dag], communicator: Communicator
) -> tuple[dict[Pair, list[Side]], dict[Pair, list[Side]]]:
    sent: dict[Pair, list[Side]] = {}
    received: dict[Pair, list[Side]] = {}
    for own, rank in enumerate(communicator.members):
        for node, message in _messages(graphs[rank], communicator):
            sides, pair = (received, (message.peer, own)) if message.receives else (sent, (own, message.peer))
            sides.setdefault(pair, []).append(Side(rank, node, message))
    return sent, received


def _messages(graph: Dag, communicator: Communicator) -> Iterator[tuple[Node, Message]]:
    for node in graph.nodes:
        if isinstance(node.task, Transfer) and node.task.communicator == communicator.name:
            yield from ((node, message) for message in node.task.messages)


def _wrong_peers(communicator: Communicator, rank: int, graph: Dag) -> Iterator[Finding]:
    size = len(communicator.members)
    for node, message in _messages(graph, communicator):
        if not 0 <= message.peer < size:
            text = (
                f"{rank_name(rank, communicator.told_members)} ({where(node)}): a message for or from rank "
                f'{message.peer} of group "{communicator.name}"; expected a rank, 0 to {size - 1}'
            )
            yield Finding(Kind.MESSAGE, (rank,), (place(rank, node),), text)


def _unmatched(
    communicator: Communicator, pair: Pair, sender: Side | None, receiver: Side | None, number: int
) -> Finding:
    sends, receives = (rank_name(communicator.members[own], communicator.told_members) for own in pair)
    side = sender or receiver
    assert side is not None
    what = f"{side.message.view.count} x {side.message.view.dtype}"
    if receiver is None:
        only, missing = f"send of {what}", f"  {receives} does not receive it"
    else:
        only, missing = f"recv of {what}", f"  {sends} does not send it"
    lines = [
        f'message #{number} from {sends} to {receives} of group "{communicator.name}" has only one side',
        f"  {rank_name(side.rank, communicator.told_members)} ({where(side.node)})  {only}",
        missing,
        "Messages from one rank to another are matched in the order in which they are issued: look for one that only "
        "one side has.",
    ]
    return Finding(Kind.MESSAGE, _ranks(communicator, pair), (place(side.rank, side.node),), "\n".join(lines))


def _differ(first: Message, second: Message) -> bool:
    return (first.view.count, first.view.dtype) != (second.view.count, second.view.dtype)


def _differing(communicator: Communicator, pair: Pair, match: Match) -> Finding:
    sender = _statement("send", pair[0], pair[1], match.sender, match.number)
    receiver = _statement("recv", pair[1], pair[0], match.receiver, match.number)
    text = describe_transfer(sender, receiver, -1, communicator.name, communicator.told_members)
    return Finding(Kind.MESSAGE, _ranks(communicator, pair), _places(match), text)


def _statement(call: str, own: int, other: int, side: Side, number: int) -> Statement:
    view = side.message.view
    return Statement(own, number, call, view.count, view.dtype, None, other, 0, where=where(side.node))


def _places(match: Match) -> tuple[Place, ...]:
    return tuple(place(side.rank, side.node) for side in (match.sender, match.receiver))


def _ranks(communicator: Communicator, pair: Pair) -> tuple[int, ...]:
    return tuple(sorted({communicator.members[own] for own in pair}))
