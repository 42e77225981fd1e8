"""A lower bound for the bytes of buffers: the largest sum of sizes of buffers of which none is before another.

Such buffers may be live at once. Where lifetimes are intervals of one line (one stream) it is the largest sum of live
bytes. In a partial order it is the heaviest antichain, which is found as a cut: the sizes, less the largest flow in
which bytes are handed on from a buffer to one that is behind it (Dilworth's theorem with weights).
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.bool_]


def lower_bound(sizes: Sequence[int], before: Matrix) -> tuple[int, tuple[int, ...]]:
    """The bound, in units of `sizes`, and the buffers that make it. before: a strict partial order, as of `place`."""
    if not sizes:
        return 0, ()
    heaviest = _heaviest_instant(sizes, before)
    antichain = heaviest if heaviest is not None else _heaviest_antichain(sizes, before)
    return sum(sizes[buffer] for buffer in antichain), tuple(antichain)


def intervals(before: Matrix) -> npt.NDArray[np.int64] | None:
    """First and last instant of each buffer's life on one line on which the order can be read; None: there is none."""
    earlier = np.unique(before.T, axis=0)
    earlier = earlier[np.argsort(earlier.sum(1))]
    if np.any(earlier[:-1] & ~earlier[1:]):  # what is before one buffer and before another must be nested
        return None
    instants = earlier.sum(1)
    first = np.searchsorted(instants, before.sum(0))
    later = np.where(before, first[None, :], len(instants))
    return np.stack([first, later.min(1, initial=len(instants)) - 1], 1)


def _heaviest_instant(sizes: Sequence[int], before: Matrix) -> list[int] | None:
    life = intervals(before)
    if life is None:
        return None
    weights = np.asarray(sizes, np.int64)
    change = np.zeros(life.max() + 2, np.int64)
    np.add.at(change, life[:, 0], weights)
    np.add.at(change, life[:, 1] + 1, -weights)
    instant = int(np.argmax(np.cumsum(change)))
    alive: list[int] = np.flatnonzero((life[:, 0] <= instant) & (instant <= life[:, 1])).tolist()
    return alive


def _heaviest_antichain(sizes: Sequence[int], before: Matrix) -> list[int]:
    count = len(sizes)
    flow = _Flow(2 * count + 2)
    source, sink = 2 * count, 2 * count + 1
    covers = before & ~((before.astype(np.float32) @ before.astype(np.float32)) > 0)
    for buffer, size in enumerate(sizes):
        flow.add(source, buffer, size)
        flow.add(count + buffer, sink, size)
        flow.add(count + buffer, buffer, sum(sizes))
    for buffer, behind in np.argwhere(covers).tolist():
        flow.add(buffer, count + behind, sum(sizes))
    reached = flow.saturate(source, sink)
    return [buffer for buffer in range(count) if buffer in reached and count + buffer not in reached]


class _Flow:
    """A largest flow by Dinic's method."""

    def __init__(self, nodes: int) -> None:
        self.leaving: list[list[int]] = [[] for _ in range(nodes)]
        self.target: list[int] = []
        self.room: list[int] = []

    def add(self, start: int, end: int, room: int) -> None:
        for node, other, amount in ((start, end, room), (end, start, 0)):
            self.leaving[node].append(len(self.target))
            self.target.append(other)
            self.room.append(amount)

    def saturate(self, source: int, sink: int) -> set[int]:
        """Fills it; what can be reached from the source then."""
        while True:
            level = self._levels(source)
            if sink not in level:
                return set(level)
            at = [0] * len(self.leaving)
            while self._push(source, sink, level, at):
                pass

    def _levels(self, source: int) -> dict[int, int]:
        level = {source: 0}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self.leaving[node]:
                if self.room[edge] and self.target[edge] not in level:
                    level[self.target[edge]] = level[node] + 1
                    queue.append(self.target[edge])
        return level

    def _push(self, source: int, sink: int, level: dict[int, int], at: list[int]) -> int:
        """As much as fits one more way; 0: there is none."""
        way: list[int] = []
        node = source
        while node != sink:
            while at[node] < len(self.leaving[node]):
                edge = self.leaving[node][at[node]]
                if self.room[edge] and level.get(self.target[edge], -1) == level[node] + 1:
                    break
                at[node] += 1
            else:
                if not way:
                    return 0
                node = self.target[way.pop() ^ 1]
                at[node] += 1
                continue
            way.append(edge)
            node = self.target[edge]
        amount = min(self.room[edge] for edge in way)
        for edge in way:
            self.room[edge] -= amount
            self.room[edge ^ 1] += amount
        return amount
