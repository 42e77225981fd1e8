"""Random programs of all ranks that are right, and seeded ways to make one wrong.

A right program is made from one list of things that happen in the job, each of which every rank concerned queues on
some stream of its own in the order of that list; then nodes that nothing ties together change places in a rank's list,
so that ranks issue unrelated calls in different orders.
"""

import dataclasses
import random
from collections.abc import Callable
from itertools import pairwise

from ascend_rt import ge

Program = dict[int, ge.Graph]
REDUCES = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("reduce", "broadcast", "scatter", "gather")
CALLS = (*REDUCES, "broadcast", "all_gather", "all_to_all", "scatter", "gather", "barrier", "all_to_all_v")


class Builder:
    """The graphs of all ranks while they grow."""

    def __init__(self, draw: random.Random, size: int, groups: dict[str, tuple[int, ...]]) -> None:
        self.draw, self.groups = draw, groups
        self.nodes: dict[int, list[ge.Node]] = {rank: [] for rank in range(size)}
        self.streams = draw.randint(1, 3)
        self.events = 0

    def add(self, rank: int, task: ge.nodes.Task, stream: int | None = None) -> ge.Node:
        nodes = self.nodes[rank]
        stream = self.draw.randrange(self.streams) if stream is None else stream
        node = ge.Node(len(nodes), "n", stream, task, line=f"step.py:{len(nodes) + 10}")
        nodes.append(node)
        return node

    def collective(self) -> None:
        name = self.draw.choice(list(self.groups))
        call = self.draw.choice(CALLS)
        members = self.groups[name]
        dtype, op = self.draw.choice(("float32", "int64")), self.draw.choice(("sum", "max")) * (call in REDUCES)
        count, root = self.draw.randint(1, 9), self.draw.randrange(len(members)) * (call in ROOTED)
        table = [[self.draw.randint(0, 5) for _ in members] for _ in members]
        for own, rank in enumerate(members):
            split = None
            if call == "all_to_all_v":
                split = tuple(table[own]), (), tuple(row[own] for row in table), ()
            self.add(rank, ge.Collective(call, name, dtype, count, op or "sum", root, split=split))

    def message(self) -> None:
        name = self.draw.choice([name for name, members in self.groups.items() if len(members) > 1])
        source, to = self.draw.sample(range(len(self.groups[name])), 2)
        v = view(self.draw)
        self.add(self.groups[name][source], ge.Transfer("send", name, (ge.Message(False, to, v),)))
        self.add(self.groups[name][to], ge.Transfer("recv", name, (ge.Message(True, source, v),)))

    def exchange(self) -> None:
        """A batch on all members, each of which sends to some and receives from some, itself included."""
        name = self.draw.choice(list(self.groups))
        members = self.groups[name]
        messages: dict[int, list[ge.Message]] = {own: [] for own in range(len(members))}
        for _ in range(self.draw.randint(1, 2 * len(members))):
            source, to = (self.draw.randrange(len(members)) for _ in "ab")
            v = view(self.draw)
            messages[source].append(ge.Message(False, to, v))
            messages[to].append(ge.Message(True, source, v))
        for own, items in messages.items():
            if items:
                self.add(members[own], ge.Transfer("batch_send_recv", name, tuple(items)))

    def event(self) -> None:
        rank = self.draw.randrange(len(self.nodes))
        self.add(rank, ge.Record(self.events))
        self.add(rank, ge.Wait(self.events))
        self.events += 1

    def control_edge(self) -> None:
        rank = self.draw.randrange(len(self.nodes))
        nodes = self.nodes[rank]
        if len(nodes) > 1:
            nodes[-1] = dataclasses.replace(nodes[-1], after=(self.draw.choice(nodes[:-1]).id,))

    def kernel(self) -> None:
        self.add(self.draw.randrange(len(self.nodes)), ge.Kernel(print))

    def graphs(self) -> Program:
        return {rank: graph_of(rank, nodes, self.groups) for rank, nodes in self.nodes.items()}


def graph_of(rank: int, nodes: list[ge.Node], groups: dict[str, tuple[int, ...]]) -> ge.Graph:
    own = {
        name: ge.Group(name, members.index(rank), len(members), members)
        for name, members in groups.items()
        if rank in members
    }
    return ge.Graph(nodes, {"": ge.Buffer("", 0)}, own)


def view(draw: random.Random) -> ge.View:
    return ge.View("", 0, draw.choice(("float32", "int8")), (draw.randint(0, 9),))


def right(seed: int) -> Program:
    draw = random.Random(seed)
    size = draw.randint(2, 6)
    builder = Builder(draw, size, draw_groups(draw, size))
    steps = [builder.collective] * 5 + [builder.message] * 2
    steps += [builder.exchange, builder.event, builder.control_edge, builder.kernel]
    for _ in range(draw.randint(6, 24)):
        draw.choice(steps)()
    builder.collective()
    builder.nodes = {rank: shuffled(draw, nodes) for rank, nodes in builder.nodes.items()}
    return builder.graphs()


def draw_groups(draw: random.Random, size: int) -> dict[str, tuple[int, ...]]:
    groups = {"world": tuple(range(size))}
    for number in range(draw.randint(0, 3)):
        groups[f"sub{number}"] = tuple(draw.sample(range(size), draw.randint(1, size)))
    return groups


def shuffled(draw: random.Random, nodes: list[ge.Node]) -> list[ge.Node]:
    """The same partial order, listed otherwise."""
    nodes = list(nodes)
    for _ in range(2 * len(nodes)):
        at = draw.randrange(max(1, len(nodes) - 1))
        if at + 1 < len(nodes) and not are_tied(nodes[at], nodes[at + 1]):
            nodes[at : at + 2] = nodes[at + 1], nodes[at]
    return nodes


def are_tied(first: ge.Node, second: ge.Node) -> bool:
    events = {getattr(node.task, "event", None) for node in (first, second)}
    same_event = len(events) == 1 and events != {None}
    same_kind = first.kind == second.kind and first.communicator == second.communicator is not None
    return first.stream == second.stream or first.id in second.after or same_event or same_kind


# ---- ways to be wrong: each returns the rank whose graph was changed, or None where this program has no place for it


def swapped_order(draw: random.Random, program: Program) -> int | None:
    """Two calls of one communicator change places on one rank."""
    ranks = list(program)
    draw.shuffle(ranks)
    for rank in ranks:
        nodes = list(program[rank].nodes)
        for name, members in group_members(program[rank]).items():
            calls = [at for at, node in enumerate(nodes) if node.kind == "collective" and node.communicator == name]
            for first, second in pairwise(calls):
                if len(members) > 1 and told(nodes[first].task) != told(nodes[second].task):
                    tasks = nodes[second].task, nodes[first].task
                    nodes[first] = dataclasses.replace(nodes[first], task=tasks[0])
                    nodes[second] = dataclasses.replace(nodes[second], task=tasks[1])
                    return changed(program, rank, nodes)
    return None


def told(task: object) -> tuple[object, ...]:
    assert isinstance(task, ge.Collective)
    if task.call == "barrier":
        return (task.call,)
    return task.call, task.dtype, None if task.split else task.count, task.op, task.root


def missing_rank(draw: random.Random, program: Program) -> int | None:
    """One rank leaves a call out."""
    rank, nodes, at = draw_call(draw, program)
    return changed(program, rank, [*nodes[:at], *nodes[at + 1 :]]) if at is not None else None


def mismatched_argument(draw: random.Random, program: Program) -> int | None:
    """One rank has another count, dtype, op or root."""
    rank, nodes, at = draw_call(draw, program)
    if at is None:
        return None
    task = nodes[at].task
    assert isinstance(task, ge.Collective)
    if task.split is not None:
        split = (task.split[0], task.split[1], tuple(count + 1 for count in task.split[2]), task.split[3])
        changes: list[dict[str, object]] = [{"split": split}]
    elif task.call == "barrier":
        changes = [{"call": "all_reduce"}]
    else:
        changes = [{"count": task.count + 1}, {"dtype": "float16"}]
        changes += [{"op": "prod"}] * (task.call in REDUCES) + [{"root": task.root + 1}] * (task.call in ROOTED)
    nodes[at] = dataclasses.replace(nodes[at], task=dataclasses.replace(task, **draw.choice(changes)))  # type: ignore[arg-type]
    return changed(program, rank, nodes)


def crossed_streams(draw: random.Random, program: Program) -> int | None:
    """Two ranks queue calls of two communicators, both of which they are in, in different orders on one stream."""
    size = len(program)
    first, second = draw.sample(range(size), 2)
    crossing = {"a": tuple(sorted((first, second))), "b": tuple(draw.sample(range(size), size))}
    for rank in range(size):
        names = [name for name in ("b", "a") if rank in crossing[name]]
        if rank == first:
            names.reverse()
        nodes = list(program[rank].nodes)
        for name in names:
            task = ge.Collective("all_reduce", name, "int8", 1)
            nodes.append(ge.Node(1000 + len(nodes), "n", 0, task, line="x.py:1"))
        program[rank] = graph_of(rank, nodes, {**group_members(program[rank]), **crossing})
    return first


def unmatched_send(draw: random.Random, program: Program) -> int | None:
    """A send or a receive is left out, or there is one too many."""
    places = [
        (rank, at)
        for rank, graph in program.items()
        for at, node in enumerate(graph.nodes)
        if node.kind == "transfer" and len(node.task.messages) == 1  # type: ignore[union-attr]
    ]
    if not places:
        return None
    rank, at = draw.choice(places)
    nodes = list(program[rank].nodes)
    if draw.random() < 0.5:
        nodes.append(dataclasses.replace(nodes.pop(at), id=1000))
        nodes.append(dataclasses.replace(nodes[-1], id=1001))
        return changed(program, rank, nodes)
    return changed(program, rank, [*nodes[:at], *nodes[at + 1 :]])


def another_graph(draw: random.Random, program: Program) -> int | None:
    """One rank launches the graph of another step of the same job."""
    builder = Builder(draw, len(program), groups_of(program))
    for _ in range(3):
        builder.collective()
    rank = draw.choice([rank for rank in program if any(told_calls(program, rank).values())])
    other = builder.graphs()
    if all(told_calls(program, rank).get(name) == calls for name, calls in told_calls(other, rank).items()):
        return None
    names = {node.communicator for node in (*other[rank].nodes, *program[rank].nodes)} - {None}
    if all(len(members) == 1 for name, members in groups_of(program).items() if name in names):
        return None
    program[rank] = other[rank]
    return rank


WRONG: dict[str, Callable[[random.Random, Program], int | None]] = {
    function.__name__: function
    for function in (
        swapped_order,
        missing_rank,
        mismatched_argument,
        crossed_streams,
        unmatched_send,
        another_graph,
    )
}


def wrong(seed: int) -> tuple[str, Program, int]:
    """(what was done, the program, the rank whose graph was changed)"""
    names = list(WRONG)
    name = names[seed % len(names)]
    for attempt in range(1000):
        program = right(100_000 + 1000 * seed + attempt)
        rank = WRONG[name](random.Random(seed), program)
        if rank is not None:
            return name, program, rank
    raise AssertionError(f"no program of seed {seed} can be wrong by {name}")


def draw_call(draw: random.Random, program: Program) -> tuple[int, list[ge.Node], int | None]:
    """A collective of a communicator that has other members: rank, nodes of the rank, place in them."""
    rank = draw.choice(list(program))
    groups = group_members(program[rank])
    nodes = list(program[rank].nodes)
    calls = [
        at for at, node in enumerate(nodes) if node.kind == "collective" and len(groups[node.communicator or ""]) > 1
    ]
    return rank, nodes, draw.choice(calls) if calls else None


def changed(program: Program, rank: int, nodes: list[ge.Node]) -> int:
    kept = {node.id for node in nodes}
    nodes = [dataclasses.replace(node, after=tuple(id for id in node.after if id in kept)) for node in nodes]
    program[rank] = graph_of(rank, nodes, group_members(program[rank]))
    return rank


def told_calls(program: Program, rank: int) -> dict[str, list[tuple[object, ...]]]:
    calls: dict[str, list[tuple[object, ...]]] = {}
    for node in program[rank].of_kind("collective"):
        if len(program[rank].groups[node.communicator or ""].world_ranks) > 1:
            calls.setdefault(node.communicator or "", []).append(told(node.task))
    return calls


def group_members(graph: ge.Graph) -> dict[str, tuple[int, ...]]:
    return {name: group.world_ranks for name, group in graph.groups.items()}


def groups_of(program: Program) -> dict[str, tuple[int, ...]]:
    return {name: members for graph in program.values() for name, members in group_members(graph).items()}
