"""Who waits for whom over all ranks, and the cycle if there is one.

The wait-for graph. A point is when something begins or is done:

    begin (rank, node)   all that the node comes behind is done; a kernel, copy or event is done with it, as far as
                         waiting goes
    meet (call)          a collective of all its members: every one of them has begun it; then it is done on all
    message              both sides have begun, and the message before it of the same pair is through
    done (rank, node)    a transfer: all its messages are through

Every wait is for all of several things and for nothing else, so what can be reached is the same for every schedule:
everything, unless points wait for one another in a circle.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...diag.failure import rank_name
from ..dag import Dag
from ..nodes import Collective, Node, Transfer, Wait
from .calls import Communicator, collectives
from .finding import Finding, Kind, Place, place
from .messages import Match, Pair, matches


class Begin(NamedTuple):
    rank: int
    node: int


class Done(NamedTuple):
    rank: int
    node: int
    is_done: bool = True
    """or it would equal a Begin, both being tuples"""


class Meet(NamedTuple):
    communicator: Communicator
    number: int


class Passing(NamedTuple):
    communicator: Communicator
    pair: Pair
    number: int


Point = Begin | Done | Meet | Passing
ADVICE = (
    "Issue the calls of different communicators, and messages, in one order on all ranks, or on streams that do not "
    "wait for one another; let a pair of ranks that send to each other use batch_send_recv."
)


def check_waiting(graphs: Mapping[int, Dag], communicators: Sequence[Communicator]) -> Iterator[Finding]:
    """At most one finding: a cycle that is as short as any through its points.

    The collectives of the communicators must agree, and their messages match.
    """
    waits = Waits(graphs, communicators)
    cycle = waits.cycle()
    if cycle:
        yield _finding(waits, cycle)


class Waits:
    """For each point those that come first."""

    def __init__(self, graphs: Mapping[int, Dag], communicators: Sequence[Communicator]) -> None:
        self.graphs = graphs
        self.first: dict[Point, list[Point]] = {}
        self._end: dict[Begin, Point] = {}
        self.node_in: dict[tuple[Point, int], Node] = {}
        """of a call or message and a rank: the node by which it takes part, as sender if it is both"""
        for communicator in communicators:
            self._add_calls(communicator)
            self._add_messages(communicator)
        for rank, graph in graphs.items():
            for node in graph.nodes:
                self.first.setdefault(Begin(rank, node.id), [])
            for edge in graph.order.edges:
                self.first[Begin(rank, edge.after)].append(self._end_of(rank, edge.before))

    def cycle(self) -> list[Point]:
        """Points each of which waits for the next, and the last for the first; empty if all can be reached."""
        stuck = self._stuck()
        if not stuck:
            return []
        point = min(stuck, key=repr)  # any: the same in every run
        walked: dict[Point, None] = {}
        while point not in walked:
            walked[point] = None
            point = next(before for before in self.first[point] if before in stuck)
        on_cycle = list(walked)[list(walked).index(point) :]
        return min((self._way_round(start, stuck) for start in on_cycle), key=len)

    def _add_calls(self, communicator: Communicator) -> None:
        for rank, nodes in collectives(self.graphs, communicator).items():
            for number, node in enumerate(nodes):
                meet, begin = Meet(communicator, number), Begin(rank, node.id)
                self.first.setdefault(meet, []).append(begin)
                self.first.setdefault(begin, [])
                self._end[begin] = meet
                self.node_in[meet, rank] = node
                if number:
                    self.first[begin].append(Meet(communicator, number - 1))

    def _add_messages(self, communicator: Communicator) -> None:
        for pair, found in matches(self.graphs, communicator).items():
            for match in found:
                self._add_message(Passing(communicator, pair, match.number), match)

    def _add_message(self, passing: Passing, match: Match) -> None:
        self.first[passing] = []
        for side in (match.receiver, match.sender):
            done = Done(side.rank, side.node.id)
            self.first[passing].append(Begin(side.rank, side.node.id))
            self.first.setdefault(done, []).append(passing)
            self._end[Begin(side.rank, side.node.id)] = done
            self.node_in[passing, side.rank] = side.node
        if passing.number > 1:
            self.first[passing].append(passing._replace(number=passing.number - 1))

    def _end_of(self, rank: int, node: int) -> Point:
        begin = Begin(rank, node)
        return self._end.get(begin, begin)

    def _stuck(self) -> set[Point]:
        """What is never reached."""
        missing = {point: len(first) for point, first in self.first.items()}
        then: dict[Point, list[Point]] = {}
        for point, first in self.first.items():
            for before in first:
                then.setdefault(before, []).append(point)
        reached = deque(point for point, count in missing.items() if not count)
        while reached:
            point = reached.popleft()
            del missing[point]
            for behind in then.get(point, ()):
                missing[behind] -= 1
                if not missing[behind]:
                    reached.append(behind)
        return set(missing)

    def _way_round(self, start: Point, stuck: set[Point]) -> list[Point]:
        """The shortest way from a point on a cycle back to it."""
        came: dict[Point, Point] = {}
        ahead = deque([start])
        while start not in came:
            point = ahead.popleft()
            for before in self.first[point]:
                if before in stuck and before not in came:
                    came[before] = point
                    ahead.append(before)
        way = [start]
        while came[way[-1]] != start:
            way.append(came[way[-1]])
        return [way[0], *reversed(way[1:])]


# ---- in words ----


def _finding(waits: Waits, cycle: list[Point]) -> Finding:
    turn = next(at for at, point in enumerate(cycle) if isinstance(point, Meet | Passing))
    cycle = [*cycle[turn:], *cycle[:turn], cycle[turn]]
    lines: list[str] = []
    places: list[Place] = []
    since: list[Point] = []
    for point in cycle:
        since.append(point)
        if len(since) > 1 and isinstance(point, Meet | Passing):
            line, at = _stretch(waits, since)
            lines.append(f"  {line}")
            places += at
            since = [point]
    ranks = sorted({at.rank for at in places})
    head = f"{', '.join(f'rank {rank}' for rank in ranks)}: a cycle, in which each call waits for the next for ever"
    return Finding(Kind.CYCLE, tuple(ranks), tuple(places), "\n".join([head, *lines, ADVICE]))


def _stretch(waits: Waits, points: Sequence[Point]) -> tuple[str, list[Place]]:
    """From one call or message to the next, on one rank."""
    first, last = points[0], points[-1]
    begins = [point for point in points if isinstance(point, Begin)]
    if not begins:
        return f"{_named(first)} comes behind {_named(last)}: messages of a pair are matched in order", []
    rank = begins[0].rank
    graph = waits.graphs[rank]
    node = graph.by_id[begins[0].node]
    behind = _last_node(waits, graph, points)
    by = ", ".join(dict.fromkeys(_reasons(graph, [*[graph.by_id[begin.node] for begin in begins], behind])))
    what = f"{_named(first)} ({_where(node)}) comes behind {_named(last)} ({_where(behind)})"
    return f"rank {rank}: {what}, by {by}", [place(rank, node)]


def _last_node(waits: Waits, graph: Dag, points: Sequence[Point]) -> Node:
    """The node of the rank that takes part in the last of the points."""
    before = points[-2]
    if isinstance(before, Done):
        return graph.by_id[before.node]
    assert isinstance(before, Begin)
    return waits.node_in[points[-1], before.rank]


def _reasons(graph: Dag, nodes: Sequence[Node]) -> Iterator[str]:
    """Why each of the nodes comes behind the next one."""
    kinds = {(edge.before, edge.after): edge.kind for edge in reversed(graph.order.edges)}
    for node, before in pairwise(nodes):
        kind = kinds.get((before.id, node.id), "")
        if kind == "stream":
            yield f"stream {node.stream}"
        elif kind == "event" and isinstance(node.task, Wait):
            yield f"event {node.task.event} (recorded at {before.line}, waited for at {node.line})"
        elif kind == "control":
            yield "a control edge"
        else:
            yield f"the order of calls of group {node.communicator!r}"


def _named(point: Point) -> str:
    if isinstance(point, Meet):
        return f'call #{point.number + 1} of group "{point.communicator.name}"'
    assert isinstance(point, Passing)
    members, told = point.communicator.members, point.communicator.told_members
    sender, receiver = (rank_name(members[own], told) for own in point.pair)
    return f'message #{point.number} from {sender} to {receiver} of group "{point.communicator.name}"'


def _where(node: Node) -> str:
    task = node.task
    call = f"{task.call}, " if isinstance(task, Collective | Transfer) else ""
    return f"{call}{node.line or 'unknown place'}, node {node.id}"
