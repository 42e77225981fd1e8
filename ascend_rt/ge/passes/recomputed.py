"""The tasks of a graph in which some buffers are computed again where they are used late, instead of being kept.

Of each source that is run again there is a place from which on its second results are used. They are computed before
the first task that wants them, with those of other sources that they take, all in the order in which they were computed
first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..costs import Costs
from ..graph import Graph
from ..memory.lifetimes import may_overwrite
from ..memory.placement import ALIGNMENT
from ..nodes import Node, Span
from ..tying import tasks_of, tied
from .moving import Place, moved
from .sources import Source, Sources, own_buffers

Choice = Mapping[Source, int]
"""By source: the place among the tasks from which on its second results are used"""


class Key(NamedTuple):
    """What a task is in all of these programs: the place that it had first, and whether it runs for the second time."""

    place: int
    is_again: bool


class Listed(NamedTuple):
    key: Key
    before: int
    """the place of the task that it stands before, or its own"""
    node: Node


class Program:
    """The tasks of a graph before anything is chosen."""

    def __init__(self, graph: Graph, costs: Costs) -> None:
        self.graph, self.tasks = graph, tasks_of(graph)
        self.sources = Sources(graph, self.tasks)
        own = own_buffers(graph)
        self.second = {name: _unused(graph, f"{name} again") for name in own}
        """By buffer: what that is called into which it is computed again"""
        self.nbytes = {held: _rounded(own[name]) for name in own for held in (name, self.second[name])}
        """By buffer whose memory is planned: the bytes that it takes"""
        self.us = [costs.of(node, graph.groups).alone_us for node in self.tasks]
        self._uses = [{span.buffer for span in (*node.reads, *node.writes)} for node in self.tasks]

    def inputs(self, source: Source) -> list[Source]:
        """The sources that can run again from which one takes what it reads."""
        found = dict.fromkeys(self.sources.of(span.buffer) for _, span in source.reads)
        return [other for other in found if other is not None]

    def recomputed(self, choice: Choice) -> "Recomputed | None":
        """The program of a choice; None: what a source reads is not there any more where it is to run again."""
        listed: list[Listed] = []
        done: set[Source] = set()
        again: dict[str, Place] = {}
        for place, node in enumerate(self.tasks):
            late = {source for buffer in self._uses[place] if (source := self._late(buffer, place, choice)) is not None}
            needed = self._needed(late - done, done, place, choice)
            if not all(self.sources.are_unchanged(source, place) for source in needed):
                return None
            done |= needed
            for source in needed:
                again |= {buffer: Place(self.second[buffer], 0) for buffer in source.buffers}
            for first in sorted(first for source in needed for first in source.places):
                listed.append(Listed(Key(first, True), place, self._second(first, node, again)))
            places = {buffer: again[buffer] for source in late for buffer in source.buffers}
            listed.append(Listed(Key(place, False), place, moved(node, places) if places else node))
        return Recomputed(self, choice, listed)

    def _late(self, buffer: str, place: int, choice: Choice) -> Source | None:
        """The source whose second results are used by the task at `place` that uses a buffer."""
        source = self.sources.of(buffer)
        return source if source is not None and choice.get(source, place + 1) <= place else None

    def _needed(self, wanted: set[Source], done: set[Source], place: int, choice: Choice) -> set[Source]:
        """With the sources that these take."""
        found, waiting = set[Source](), list(wanted)
        while waiting:
            source = waiting.pop()
            found.add(source)
            taken = {self._late(span.buffer, place, choice) for _, span in source.reads}
            waiting += [other for other in taken if other is not None and other not in found | done]
        return found

    def _second(self, first: int, user: Node, again: Mapping[str, Place]) -> Node:
        """A task that runs for the second time: on the stream of the kernel that waits for it."""
        node = moved(self.tasks[first], again)
        return node if user.communicator is not None else replace(node, stream=user.stream)


class Recomputed:
    """A program of a choice, with what it costs."""

    def __init__(self, program: Program, choice: Choice, listed: Sequence[Listed]) -> None:
        self.program, self.choice, self.listed = program, choice, listed
        self.places = {entry.key: place for place, entry in enumerate(listed)}
        self.again = [entry.key.place for entry in listed if entry.key.is_again]
        self.us = sum(program.us[place] for place in self.again)
        self.lives = self._lives()
        self.live = self._live()
        self.peak = int(self.live.max(initial=0))

    def is_live(self, buffer: str, at: int) -> bool:
        """Whether a buffer is kept while the task at `at` runs."""
        first, last = self.lives.get(buffer, (0, -1))
        return first <= at <= last

    def graph(self) -> tuple[Graph, dict[int, int]]:
        """As a graph, and by id of a task that runs for the second time that of the first."""
        graph, first = self.program.graph, dict[int, int]()
        tasks, buffers = [], dict(graph.buffers)
        for entry in self.listed:
            node = entry.node
            if entry.key.is_again:
                id = graph.next_id + len(first)
                first[id], node = node.id, replace(node, id=id)
            tasks.append(node)
        for name in sorted(name for source in self.choice for name in source.buffers):
            second = self.program.second[name]
            buffers[second] = replace(buffers[name], name=second)
        return graph.replace("recomputed", nodes=tied(graph, tasks), buffers=buffers), first

    def _lives(self) -> dict[str, tuple[int, int]]:
        """By buffer: the first and the last task that uses it, in the order in which they are listed."""
        lives: dict[str, tuple[int, int]] = {}
        for place, entry in enumerate(self.listed):
            for span in (*entry.node.reads, *entry.node.writes):
                lives[span.buffer] = lives.get(span.buffer, (place, place))[0], place
        return lives

    def _live(self) -> npt.NDArray[np.int64]:
        """Bytes in use while each task runs; what is taken over in place counts once."""
        change = np.zeros(len(self.listed) + 1, np.int64)
        for buffer, (first, last) in self.lives.items():
            nbytes = self.program.nbytes.get(buffer, 0)
            change[first] += nbytes
            change[last + 1 - self._is_taken_over(buffer, last)] -= nbytes
        return np.cumsum(change)[:-1]

    def _is_taken_over(self, buffer: str, last: int) -> bool:
        node, nbytes = self.listed[last].node, self.program.nbytes.get(buffer, 0)
        return any(
            self.lives[span.buffer][0] == last
            and self.program.nbytes.get(span.buffer) == nbytes
            and may_overwrite(node, Span(buffer, 0, nbytes), Span(span.buffer, 0, nbytes))
            for span in node.writes
        )


def _unused(graph: Graph, name: str) -> str:
    while name in graph.buffers:
        name += "'"
    return name


def _rounded(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
