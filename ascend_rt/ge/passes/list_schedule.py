"""List scheduling: tasks are listed one by one, each on its stream, as time passes by prediction.

Memory bounds it in two ways. A kernel for whose results there is no room waits until another one has been listed. That
counts a buffer as free when its last use is listed, though kernels need not wait for a call that is. Where it must hold
whatever times tasks take, a kernel also gets a control edge to calls and kernels that have to be done for its room: a
fence. It waits for those that are done first, by prediction, so it is late only where memory really is short.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..costs import Cost
from ..nodes import Node
from ..tying import Needs, needs_of

Clock = dict[int, int]
"""by stream: how many of its tasks are done"""


class Freed(NamedTuple):
    """A buffer all of whose uses are listed."""

    nbytes: int
    users: tuple[int, ...]
    """of each stream the last task that uses it"""
    end: float


class Memory:
    """Bytes of the graph's own buffers while tasks are listed: each from its first task to its last."""

    def __init__(self, tasks: Sequence[Node], own: Mapping[str, int], most: int) -> None:
        self.nbytes, self.most = 0, most
        self._own = own
        self._uses = {node.id: {s.buffer for s in (*node.reads, *node.writes)} & own.keys() for node in tasks}
        self._left: dict[str, int] = dict.fromkeys(own, 0)
        for names in self._uses.values():
            for name in names:
                self._left[name] += 1
        self._users: dict[str, list[int]] = {}
        """of buffers that are live"""

    def lacking(self, id: int) -> int:
        """The bytes by which there is no room for what a task begins to use; 0 or less where there is."""
        new = sum(self._own[name] for name in self._uses[id] if name not in self._users)
        return self.nbytes + new - self.most if new else 0

    def list(self, id: int) -> list[tuple[int, list[int]]]:
        """Bytes and users of what it was the last to use."""
        freed = []
        for name in sorted(self._uses[id]):
            if name not in self._users:
                self._users[name] = []
                self.nbytes += self._own[name]
            self._users[name].append(id)
            self._left[name] -= 1
            if not self._left[name]:
                self.nbytes -= self._own[name]
                freed.append((self._own[name], self._users.pop(name)))
        return freed


class Schedule:
    """The tasks as listed.

    reach        from how many of the next kernels of a stream one is taken: 1 keeps their order, as calls always do
    has_fences   whether kernels wait for what frees memory
    """

    def __init__(
        self,
        tasks: Sequence[Node],
        costs: Mapping[int, Cost],
        memory: Memory,
        *,
        reach: int,
        has_fences: bool = False,
    ) -> None:
        self.listed: list[Node] = []
        self._costs, self._memory, self._reach = costs, memory, reach
        self._tasks = {node.id: node for node in tasks}
        self._place = {node.id: place for place, node in enumerate(tasks)}
        self._needs = needs_of(tasks)
        self._ways = _longest_ways(tasks, self._needs, costs)
        self._last_call = _last_calls(tasks, self._needs)
        self._calls = deque(node.id for node in tasks if node.communicator is not None)
        self._end: dict[int, float] = {}
        self._free = dict.fromkeys((node.stream for node in tasks), 0.0)
        self._fences = _Fences(self._tasks) if has_fences else None
        queues: dict[int, list[int]] = {stream: [] for stream in self._free}
        for node in tasks:
            queues[node.stream].append(node.id)
        with_calls = {node.stream for node in tasks if node.communicator is not None}
        self._call_queues = [queue for stream, queue in queues.items() if stream in with_calls]
        self._kernel_queues = [queue for stream, queue in queues.items() if stream not in with_calls]
        while len(self._end) < len(tasks):
            self._list_calls()
            self._list_a_kernel()

    def _list_calls(self) -> None:
        """All of the streams of calls whose needs are listed; these streams keep their order."""
        begun = -1
        while begun < len(self._end):
            begun = len(self._end)
            for queue in self._call_queues:
                while queue and self._is_ready(queue[0]):
                    self._list(queue.pop(0))

    def _list_a_kernel(self) -> None:
        """Of those that can begin first, and for which there is room, that with the longest way to the end."""
        while self._calls and self._calls[0] in self._end:
            self._calls.popleft()
        first_call = self._place[self._calls[0]] if self._calls else len(self._place)
        found: dict[int, list[int]] = {}
        for queue in self._kernel_queues:
            for id in queue[: self._reach]:
                if self._is_ready(id) and self._last_call[id] < first_call:
                    found[id] = queue
        if not found:
            return
        fences = {id: self._fences_of(id, first_call) for id in found}
        fitting = [id for id in found if fences[id] is not None] or [min(found, key=self._memory.lacking)]
        starts = {id: self._start(id, fences[id] or ()) for id in fitting}
        first = min(starts.values())
        best = min((id for id in fitting if starts[id] <= first), key=lambda id: (-self._ways[id], self._place[id]))
        found[best].remove(best)
        self._list(best, fences[best] or ())

    def _fences_of(self, id: int, first_call: int) -> tuple[int, ...] | None:
        """What a kernel has to wait for so that there is room; None: nothing makes room."""
        lacking = self._memory.lacking(id)
        if self._fences is None:
            return () if lacking <= 0 else None
        known = self._fences.known(self._tasks[id], self._needs[id])

        def may_be_waited_for(user: int) -> bool:
            """As what a kernel needs anyway: or ranks might wait for one another in a circle."""
            is_call = self._tasks[user].communicator is not None
            return max(self._last_call[user], self._place[user] if is_call else -1) < first_call

        return self._fences.making_room(lacking, known, may_be_waited_for)

    def _is_ready(self, id: int) -> bool:
        return self._needs[id] <= self._end.keys()

    def _start(self, id: int, fences: Sequence[int]) -> float:
        ends = (self._end[before] for before in (*self._needs[id], *fences))
        return max([self._free[self._tasks[id].stream], *ends])

    def _list(self, id: int, fences: Sequence[int] = ()) -> None:
        node = self._tasks[id]
        self._end[id] = self._free[node.stream] = self._start(id, fences) + self._costs[id].alone_us
        freed = self._memory.list(id)
        if self._fences is not None:
            self._fences.list(node, (*self._needs[id], *fences))
            for nbytes, users in freed:
                self._fences.free(nbytes, users, self._end)
        self.listed.append(replace(node, after=(*node.after, *fences)) if fences else node)


class _Fences:
    """Buffers that are free behind some tasks, and which tasks are done when one begins."""

    def __init__(self, tasks: Mapping[int, Node]) -> None:
        self._tasks = tasks
        self._kernel_streams = {node.stream for node in tasks.values() if node.communicator is None}
        self._number: dict[int, int] = {}
        self._clocks: dict[int, Clock] = {}
        self._latest: dict[int, int] = {}
        """by stream: the task that was listed last"""
        self._freed: list[Freed] = []
        """by their ends"""

    def known(self, node: Node, needs: Collection[int]) -> Clock:
        """What is done when a task begins that is listed now."""
        clock: Clock = {}
        latest = [self._latest[node.stream]] if node.stream in self._latest else []
        for before in (*needs, *latest):
            _advance(clock, self._clocks[before])
        return clock

    def making_room(
        self, lacking: int, known: Clock, may_be_waited_for: Callable[[int], bool]
    ) -> tuple[int, ...] | None:
        """The tasks to be waited for, those that are done first, where so many bytes are lacking although all that is
        freed were free; None: there are none that would do."""
        held = [freed for freed in self._freed if not self._are_done(freed.users, known)]
        lacking += sum(freed.nbytes for freed in held)
        fences: dict[int, None] = {}
        known = dict(known)
        for freed in held:
            if lacking <= 0:
                break
            if all(map(may_be_waited_for, freed.users)):
                waits = [user for user in freed.users if not self._are_done((user,), known)]
                fences.update(dict.fromkeys(waits))
                for user in waits:
                    _advance(known, self._clocks[user])
                lacking -= freed.nbytes
        return tuple(fences) if lacking <= 0 else None

    def list(self, node: Node, needs: Sequence[int]) -> None:
        clock = self.known(node, needs)
        self._number[node.id] = clock[node.stream] = clock.get(node.stream, 0) + 1
        self._clocks[node.id] = clock
        self._latest[node.stream] = node.id
        if node.communicator is None:
            self._freed = [freed for freed in self._freed if not self._is_known_to_all(freed)]

    def free(self, nbytes: int, users: Sequence[int], end: Mapping[int, float]) -> None:
        """A buffer is not used behind these tasks."""
        last = {self._tasks[user].stream: user for user in users}
        self._freed.append(Freed(nbytes, tuple(last.values()), max(end[user] for user in last.values())))
        self._freed.sort(key=lambda freed: freed.end)

    def _is_known_to_all(self, freed: Freed) -> bool:
        clocks = [self._clocks[self._latest[s]] if s in self._latest else {} for s in self._kernel_streams]
        return all(self._are_done(freed.users, clock) for clock in clocks)

    def _are_done(self, users: Sequence[int], known: Clock) -> bool:
        return all(known.get(self._tasks[user].stream, 0) >= self._number[user] for user in users)


def _advance(clock: Clock, other: Clock) -> None:
    for stream, number in other.items():
        clock[stream] = max(clock.get(stream, 0), number)


def _last_calls(tasks: Sequence[Node], needs: Needs) -> dict[int, int]:
    """By id: the place of the last call that a task waits for, directly or through others; -1: none."""
    places: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, node in enumerate(tasks):
        if node.communicator is not None:
            places[node.id] = place
        last[node.id] = max((max(last[id], places.get(id, -1)) for id in needs[node.id]), default=-1)
    return last


def _longest_ways(tasks: Sequence[Node], needs: Needs, costs: Mapping[int, Cost]) -> dict[int, float]:
    """By id: microseconds of the longest chain from the begin of a task to the end of the step."""
    ways = {node.id: costs[node.id].alone_us for node in tasks}
    for node in reversed(tasks):
        for before in needs[node.id]:
            ways[before] = max(ways[before], costs[before].alone_us + ways[node.id])
    return ways
