"""Executes the graphs of all ranks in a random interleaving, as a job would: a worker per stream, tickets, boards.

It knows no cycles and compares no lists: it lets one worker after another do its next small thing until none can.
"""

import random
from collections import defaultdict
from enum import Enum
from typing import Any

from ascend_rt import ge

Channel = tuple[str, tuple[int, ...], tuple[int, int]]


class End(Enum):
    DONE = "every worker has run all of its nodes"
    DEADLOCK = "some worker waits, and none can go on"
    MISMATCH = "ranks met that do not make the same call"


class MismatchError(Exception):
    pass


class Simulator:
    def __init__(self, program: dict[int, ge.Graph], seed: int) -> None:
        self.draw = random.Random(seed)
        self.workers = [Worker(self, rank, graph, s) for rank, graph in program.items() for s in graph.streams]
        self.boards: dict[tuple[str, tuple[int, ...], int], dict[int, Any]] = defaultdict(dict)
        self.channels: dict[Channel, dict[tuple[int, bool], Any]] = defaultdict(dict)
        self.done: set[tuple[int, int]] = set()
        self.events: set[tuple[int, int]] = set()
        self.calls_done: dict[tuple[int, str], int] = defaultdict(int)

    def run(self) -> End:
        try:
            while self.round():
                pass
        except MismatchError:
            return End.MISMATCH
        return End.DONE if not any(worker.nodes for worker in self.workers) else End.DEADLOCK

    def round(self) -> bool:
        """Some workers, in some order, do something; whether any could."""
        self.draw.shuffle(self.workers)
        some = self.workers[: self.draw.randint(1, len(self.workers))]
        return sum(worker.step() for worker in some) > 0 or sum(worker.step() for worker in self.workers) > 0


class Worker:
    """One stream of one rank."""

    def __init__(self, simulator: Simulator, rank: int, graph: ge.Graph, stream: int) -> None:
        self.simulator, self.rank, self.graph = simulator, rank, graph
        self.nodes = [node for node in graph.nodes if node.stream == stream]
        self.has_begun = False
        self.tickets = tickets(graph)

    def step(self) -> bool:
        """Does something, if it can."""
        if not self.nodes:
            return False
        node = self.nodes[0]
        if not self.has_begun:
            self.has_begun = self.may_begin(node)
            if self.has_begun:
                self.begin(node)
            return self.has_begun
        if not self.is_through(node):
            return False
        self.simulator.done.add((self.rank, node.id))
        if isinstance(node.task, ge.Record):
            self.simulator.events.add((self.rank, node.task.event))
        elif isinstance(node.task, ge.Collective):
            self.simulator.calls_done[self.rank, node.task.communicator] += 1
        self.nodes.pop(0)
        self.has_begun = False
        return True

    def may_begin(self, node: ge.Node) -> bool:
        done = self.simulator.done
        if any((self.rank, before) not in done for before in node.after):
            return False
        if isinstance(node.task, ge.Wait):
            return (self.rank, node.task.event) in self.simulator.events
        if isinstance(node.task, ge.Collective):
            return self.simulator.calls_done[self.rank, node.task.communicator] == self.tickets[node.id][0]
        return True

    def begin(self, node: ge.Node) -> None:
        task = node.task
        if isinstance(task, ge.Collective):
            line = (task.call, task.dtype, task.count, task.op, task.root) if task.call != "barrier" else (task.call,)
            self.board(node)[self.rank] = (line, task.split)
        elif isinstance(task, ge.Transfer):
            for message, channel, ticket in self.channels(node):
                self.simulator.channels[channel][ticket, message.receives] = message.view.count, message.view.dtype

    def is_through(self, node: ge.Node) -> bool:
        if isinstance(node.task, ge.Collective):
            return self.have_met(node)
        if isinstance(node.task, ge.Transfer):
            return all(self.has_passed(channel, ticket) for _, channel, ticket in self.channels(node))
        return True

    def have_met(self, node: ge.Node) -> bool:
        board = self.board(node)
        members = self.group(node).world_ranks
        if any(rank not in board for rank in members):
            return False
        if len({line for line, _ in board.values()}) > 1:
            raise MismatchError
        splits = [board[rank][1] for rank in members]
        if splits[0] is not None and any(
            splits[i][0][j] != splits[j][2][i] for i in range(len(members)) for j in range(len(members))
        ):
            raise MismatchError
        return True

    def has_passed(self, channel: Channel, ticket: int) -> bool:
        posted = self.simulator.channels[channel]
        for number in range(ticket + 1):
            if (number, True) not in posted or (number, False) not in posted:
                return False
            if posted[number, True] != posted[number, False]:
                raise MismatchError
        return True

    def board(self, node: ge.Node) -> dict[int, Any]:
        group = self.group(node)
        return self.simulator.boards[group.name, group.world_ranks, self.tickets[node.id][0]]

    def channels(self, node: ge.Node) -> list[tuple[ge.Message, Channel, int]]:
        group = self.group(node)
        assert isinstance(node.task, ge.Transfer)
        pairs = [(m.peer, group.rank) if m.receives else (group.rank, m.peer) for m in node.task.messages]
        channels = [(group.name, group.world_ranks, pair) for pair in pairs]
        return list(zip(node.task.messages, channels, self.tickets[node.id], strict=True))

    def group(self, node: ge.Node) -> ge.Group:
        return self.graph.groups[node.communicator or ""]


def tickets(graph: ge.Graph) -> dict[int, list[int]]:
    """The numbers that a launch gives out, in the order of the nodes: of the call, or of each message."""
    given: dict[Any, int] = defaultdict(int)
    found: dict[int, list[int]] = {}
    for node in graph.nodes:
        task = node.task
        keys: list[Any] = []
        if isinstance(task, ge.Collective):
            keys = [task.communicator]
        elif isinstance(task, ge.Transfer):
            keys = [(task.communicator, message.receives, message.peer) for message in task.messages]
        for key in keys:
            found.setdefault(node.id, []).append(given[key])
            given[key] += 1
    return found
