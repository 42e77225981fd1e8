"""How long the tasks of a graph take: kernels as measured, communication by the model of plan/ and by emulated links.

costs = Costs(kernels=times, machine=machine, links=settings.ascend_rt_link, ranks=4)
costs.of(node, graph.groups)              microseconds of the processor, and microseconds at least
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from ..plan.choice import DTYPES, OPS, Row, choose, passed_over
from ..plan.collectives import COLLECTIVES
from ..plan.cost import as_written, cost
from ..plan.linked import Wires, fastest, linked_us
from ..plan.model import SHIPPED, Machine
from ..plan.registry import names, parameters
from ..settings import Links
from .nodes import Collective, Group, Kernel, Node, Record, Transfer, Wait


class Cost(NamedTuple):
    """What a task takes, in microseconds."""

    work_us: float
    """of a core"""
    least_us: float = 0.0
    """from its begin to its end, whatever the core does: a link's time"""

    @property
    def alone_us(self) -> float:
        """From begin to end where nothing else runs."""
        return max(self.work_us, self.least_us)


FREE = Cost(0.0)
ONE_CORE = Machine(1, SHIPPED)


@dataclass(frozen=True)
class Costs:
    """What the tasks of one rank's graph take.

    kernels     microseconds by id of the node, as measured while all ranks run; one that is not in it is taken to last
                as long as loading and storing what it uses
    machine     cores of the host, and what a byte and a round cost there
    links       emulated links (ASCEND_RT_LINK); None: memory is all that limits
    ranks       of the job: they share the cores
    algorithms  of collectives, by name of the call; mesh where nothing is said and links are alike
    task_us     what every task costs beyond itself
    late_us     by the job's ranks of a communicator, how much later than emulated links say its calls end
    """

    kernels: Mapping[int, float] = field(default_factory=dict)
    machine: Machine = ONE_CORE
    links: Links | None = None
    ranks: int = 1
    algorithms: Mapping[str, str] = field(default_factory=dict)
    task_us: float = 0.0
    late_us: Mapping[tuple[int, ...], float] = field(default_factory=dict)

    @property
    def cores(self) -> float:
        """The tasks of a rank that can be worked on at once, at the speed at which kernels were measured."""
        return max(1.0, self.machine.cores / self.ranks)

    def with_kernels_at(self, speed: float) -> "Costs":
        """The same with kernels that are so many times as fast."""
        return replace(self, kernels={id: time / speed for id, time in self.kernels.items()})

    def of(self, node: Node, groups: Mapping[str, Group]) -> Cost:
        """The cost of a node, whatever else runs."""
        task = node.task
        if isinstance(task, Record | Wait):
            return FREE
        if isinstance(task, Collective):
            group = groups[task.communicator]
            if task.split is not None:
                return self._plus_task(self._moved(sum(span.nbytes for span in node.reads), group))
            return self.call(task.call, nbytes_of(node), group, task.root, dtype=task.dtype, op=task.op)
        if isinstance(task, Transfer):
            nbytes = sum(message.view.span.nbytes for message in task.messages)
            return self._plus_task(self._moved(nbytes, groups[task.communicator]))
        if isinstance(task, Kernel) and node.id in self.kernels:
            return Cost(self.kernels[node.id] + self.task_us)
        return self._plus_task(Cost(self.copied_us(sum(span.nbytes for span in (*node.reads, *node.writes)) / 2)))

    def call(
        self, call: str, nbytes: int, group: Group, root: int = 0, *, dtype: str = "float32", op: str = "sum"
    ) -> Cost:
        """A collective with blocks of so many bytes. Where links differ and no algorithm is said, it is by the one that
        a communicator takes there, as long as plan/linked.py says."""
        if group.size == 1:
            return self._plus_task(Cost(self.copied_us(nbytes)))
        late_us = self.late_us.get(tuple(group.world_ranks), 0.0)
        if nbytes and call not in self.algorithms and self._are_uneven(group):
            members = tuple(group.world_ranks)
            wires = tuple(self.links.costs(rank, members) for rank in members) if self.links else ()
            row, least = _over_uneven(self.machine, wires, call, nbytes, root, dtype, op)
            work = self.machine.predicted_us(call, row.algorithm, group.size, nbytes, row.options)
            return self._plus_task(Cost(work, least + late_us))
        algorithm = self.algorithms.get(call, "mesh")
        work = self.machine.predicted_us(call, algorithm, group.size, nbytes)
        latency_us, us_per_byte = self._link(group)
        rounds, carried = _on_links(call, algorithm, group.size, root)
        least = (rounds * latency_us + carried * nbytes * us_per_byte + late_us) if us_per_byte else 0.0
        return self._plus_task(Cost(work, least))

    def copied_us(self, nbytes: float) -> float:
        """Copying so many bytes within this rank's memory."""
        return 2 * nbytes * self.machine.constants.beta_us_per_byte

    def _moved(self, nbytes: int, group: Group) -> Cost:
        latency_us, us_per_byte = self._link(group)
        return Cost(self.machine.constants.alpha_us + self.copied_us(nbytes), latency_us + nbytes * us_per_byte)

    def _plus_task(self, cost: Cost) -> Cost:
        return Cost(cost.work_us + self.task_us, cost.least_us)

    def _are_uneven(self, group: Group) -> bool:
        """Whether two pairs of a group have links of other speeds, or one pair has none."""
        return self.links is not None and len({self.links.between(*p) for p in combinations(group.world_ranks, 2)}) > 1

    def _link(self, group: Group) -> tuple[float, float]:
        """Latency in microseconds and microseconds per byte of the slowest link in a group; zeros: none is emulated."""
        if self.links is None:
            return 0.0, 0.0
        links = [self.links.between(*pair) for pair in combinations(group.world_ranks, 2)]
        latencies = [link.latency_ns / 1e3 for link in links if link]
        rates = [link.bytes_per_second for link in links if link]
        return (max(latencies), 1e6 / min(rates)) if rates else (0.0, 0.0)


def nbytes_of(node: Node) -> int:
    """Bytes of one block of a collective, as HCCL counts."""
    assert isinstance(node.task, Collective)
    views = [view for view in (node.task.x, node.task.out) if view is not None]
    return node.task.count * views[0].itemsize if views else 0


@lru_cache(maxsize=1024)
def _over_uneven(
    machine: Machine, wires: Wires, call: str, nbytes: int, root: int, dtype: str, op: str
) -> tuple[Row, float]:
    """What a communicator takes over such links where no variable has asked for an algorithm, and its microseconds."""
    size, numbers = len(wires), (DTYPES.index(dtype), OPS.index(op))
    default = choose(call, size, nbytes, *numbers).row
    others = [Row(call, name) for name in names(call) if name != default.algorithm]
    on_one_server = [row for row in others if "servers" not in parameters(call, row.algorithm)]
    rows = [default, *(row for row in on_one_server if not passed_over(row, size, *numbers))]
    row = fastest(machine, wires, rows, nbytes, root).row
    return row, linked_us(machine, wires, row, nbytes, root)


@lru_cache(maxsize=256)
def _on_links(call: str, algorithm: str, size: int, root: int) -> tuple[int, float]:
    """Latencies of a collective one after another, and bytes that its busiest link carries per byte of a block."""
    larger = COLLECTIVES[call].blocks(size)
    if larger == 0:
        return 1, 0.0
    written = as_written(call, algorithm, size, root)
    return written.rounds, float(cost(call, algorithm, size, root).link) * larger
