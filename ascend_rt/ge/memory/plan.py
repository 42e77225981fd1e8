"""Where the buffers of a graph lie in one block of device memory, found before anything runs.

    plan = plan_memory(graph)
    print(plan.report())                     GE's numbers, the largest tensors
    plan.draw("memory.png")                  time x address (matplotlib)
    planned = allocate(plan, device_memory)  the graph over its memory; EL0004 if there is not enough

Planned are the intermediate buffers, which are the graph's own. Inputs, outputs and constants are the program's and are
used where they lie (zero copy); with the switches below their bytes serve the graph too, while they are not in use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ...acl.memory import DeviceMemory
from ..dag import Dag
from ..errors import GraphMemoryError
from ..nodes import Role
from . import picture
from .lifetimes import Lifetimes, lifetimes
from .options import MemoryOptions
from .placement import ALIGNMENT, Placement, place

Bytes = npt.NDArray[np.uint8]
SomeDag = TypeVar("SomeDag", bound=Dag)
TOP = 8
"""tensors in a report"""


@dataclass(frozen=True)
class MemoryPlan(Generic[SomeDag]):
    """Offsets of buffers in one block of `peak` bytes."""

    graph: SomeDag
    options: MemoryOptions
    lives: Lifetimes
    placement: Placement
    offsets: dict[str, int]

    @property
    def peak(self) -> int:
        """Bytes of the block: GE's memoffset."""
        return self.placement.peak

    @property
    def bound(self) -> int:
        """Bytes that no plan can do with less of: GE's theory_min."""
        return self.placement.bound

    @property
    def total_size(self) -> int:
        """Bytes of what is planned without any reuse."""
        return sum(_rounded(self.graph.buffers[name].nbytes) for name in self.offsets)

    @property
    def no_reuse(self) -> int:
        """Bytes that are exempt from reuse."""
        exempt = self.offsets if not self.options.reuse else self.options.no_reuse
        return sum(_rounded(self.graph.buffers[name].nbytes) for name in exempt if name in self.offsets)

    @property
    def zero_copy(self) -> int:
        """Bytes of the program's that are used where they lie."""
        others = (buffer.nbytes for name, buffer in self.graph.buffers.items() if name not in self.offsets)
        return sum(map(_rounded, others))

    def in_place(self) -> list[tuple[str, ...]]:
        """Buffers of which each lies where the one before it did, which was used no more."""
        return [tuple(part.buffer for part in chain) for chain in self.lives.places if len(chain) > 1]

    def top(self, count: int = TOP) -> list[tuple[str, int]]:
        """The largest of the buffers that press, by name, and how many of their bytes are live together at the
        bound."""
        sizes: dict[str, int] = {}
        for index in self.placement.pressing:
            part = self.lives.places[index][0]
            sizes[part.buffer] = sizes.get(part.buffer, 0) + part.nbytes
        return sorted(sizes.items(), key=lambda entry: (-entry[1], entry[0]))[:count]

    def report(self) -> str:
        """GE's line of numbers, in bytes, and the largest tensors."""
        reused = bool(self.options.input_reuse or self.options.output_reuse)
        numbers = {
            "graph": self.graph.name,
            "memoffset": self.peak,
            "theory_min": self.bound,
            "zero_copy": self.zero_copy,
            "total_size": self.total_size,
            "no_reuse": self.no_reuse,
            "streams": len(self.graph.streams),
            "io_reuse": int(reused),
        }
        line = "AfterAssignMemory : " + ", ".join(f"{name}[{value}]" for name, value in numbers.items())
        above = f"{self.peak / self.bound - 1:.1%} above the bound" if self.bound else "nothing to plan"
        saved = f"{self.peak / self.total_size:.0%} of the bytes without reuse, " if self.total_size else ""
        lines = [line, f"  {saved}{above} ({self.placement.how}); {len(self.in_place())} chains in place"]
        lines += [f"  {nbytes:>14,} bytes  {name}  {self.where(name)}" for name, nbytes in self.top()]
        return "\n".join(lines)

    def where(self, name: str) -> str:
        """The offset of a buffer, and the line of the program that writes it first."""
        lines = [node.line for node in self.graph.uses(name) if any(span.buffer == name for span in node.writes)]
        return f"at {self.offsets[name]:#x}" + (f", written by {lines[0]}" if lines and lines[0] else "")

    def draw(self, path: str | Path) -> None:
        """A picture of time x address as a file, by its ending: png, svg, pdf. ImportError without matplotlib."""
        picture.draw(picture.Drawn(self.graph, self.lives.places, self.placement), Path(path))

    def memory(self, block: Bytes) -> dict[str, Bytes]:
        """The bytes of each buffer in a block of `peak` bytes or more."""
        return {
            name: block[offset : offset + self.graph.buffers[name].nbytes] for name, offset in self.offsets.items()
        }


def plan_memory(graph: SomeDag, options: MemoryOptions | None = None) -> MemoryPlan[SomeDag]:
    """Offsets for the buffers that are the graph's own. Blocks nobody, moves nothing; the same for the same graph.

    options: by default what ge.optimise was told. ValueError: they name a buffer that the graph has not, or not in that
    role.
    """
    options = options or graph.memory_options or MemoryOptions()
    _check(graph, options)
    inputs, outputs = set(options.input_reuse), set(options.output_reuse)
    names = [
        name
        for name, buffer in graph.buffers.items()
        if buffer.on_device and (buffer.role is Role.INTERMEDIATE or name in inputs or name in outputs)
    ]
    grouped = {name for group in options.side_by_side for name in group}
    lives = lifetimes(
        graph,
        names,
        first=options.input_reuse,
        last=options.output_reuse,
        alone=options.no_reuse if options.reuse else names,
        in_place=[name for name in names if name not in grouped] if options.in_place else [],
        whole=sorted(grouped),
    )
    index = {part.buffer: place for place, chain in enumerate(lives.places) for part in chain if not part.start}
    placement = place(
        [chain[0].nbytes for chain in lives.places],
        lives.before,
        groups=[*lives.groups, *([index[name] for name in group] for group in options.side_by_side)],
        effort=options.effort,
    )
    offsets = {name: placement.offsets[index[name]] for name in names}
    return MemoryPlan(graph, options, lives, placement, offsets)


def _check(graph: Dag, options: MemoryOptions) -> None:
    wanted = [(name, Role.INPUT) for name in options.input_reuse]
    wanted += [(name, Role.OUTPUT) for name in options.output_reuse]
    wanted += [(name, Role.INTERMEDIATE) for group in options.side_by_side for name in group]
    for name, role in wanted:
        buffer = graph.buffers.get(name)
        if buffer is None or buffer.role is not role:
            has = "none of its buffers" if buffer is None else f"its {buffer.role}"
            raise ValueError(f"graph {graph.name!r}: {name!r} is {has}; expected its {role}")


# ---- memory for plans ----


def allocate(plan: MemoryPlan[SomeDag], memory: DeviceMemory) -> SomeDag:
    """The graph with its buffers in a new block of device memory, which lives as long as the graph.

    GraphMemoryError (EL0004), before anything is allocated or moved: there is not so much.
    """
    return share([plan], memory)[0]


def share(plans: Sequence[MemoryPlan[SomeDag]], memory: DeviceMemory) -> list[SomeDag]:
    """As `allocate`, for graphs that never run at the same time: one block, of the largest, for all of them.

    (GE: ge.exec.staticMemoryPolicy = 2.) What a launch of one leaves in its intermediate buffers is gone when another
    has been launched.
    """
    block = reserve(max(plans, key=lambda plan: plan.peak), memory)
    did = "memory planned: {0.peak} bytes in a block of {1}, bound {0.bound}"
    return [
        plan.graph.replace(did.format(plan, block.nbytes), memory={**plan.graph.memory, **plan.memory(block)})
        for plan in plans
    ]


def reserve(plan: MemoryPlan[Any], memory: DeviceMemory) -> Bytes:
    """A block for a plan. GraphMemoryError: there is no room, and nothing has been allocated."""
    fits = room(memory)
    if plan.peak > fits:
        raise GraphMemoryError(explain(plan, memory, fits))
    return memory.empty((max(plan.peak, 1),), np.uint8)


def room(memory: DeviceMemory) -> int:
    """Bytes of the largest block that could be allocated now, by the budgets of the job and of the device as well."""
    segment = memory.segment
    job = segment.hbm_limit - segment.hbm_in_use
    device = segment.hbm_device_limit - segment.device_in_use(memory.index)
    return max(0, min(memory.device.largest_free, job, device)) // ALIGNMENT * ALIGNMENT


def explain(plan: MemoryPlan[Any], memory: DeviceMemory, fits: int) -> str:
    """Why a plan finds no room: what it takes, what there is, what presses and what would fit."""
    lines = [
        f"rank {memory.rank}: graph {plan.graph.name!r} needs {plan.peak:,} bytes of {memory.name}, which has {fits:,} "
        f"in one piece; nothing has been allocated or moved",
        f"  planned peak {plan.peak:,}, lower bound {plan.bound:,}, without reuse {plan.total_size:,} bytes",
        f"  in use: {memory.segment.hbm_in_use:,} of {memory.segment.hbm_limit:,} bytes by the job, "
        f"{memory.segment.device_in_use(memory.index):,} of {memory.segment.hbm_device_limit:,} on this device",
        "  live at the same time:",
        *(f"  {nbytes:>16,} bytes  {name}  {plan.where(name)}" for name, nbytes in plan.top()),
        f"A step of {fits / plan.peak:.0%} of this size would fit: a smaller batch, more ranks to share the model, or "
        f"hccl-run --hbm.",
    ]
    if not plan.options.reuse and plan.bound < plan.total_size:
        lines.append("Memory reuse is switched off (MemoryOptions.reuse, ge.exec.disableReuseMemory).")
    return "\n".join(lines)


def _rounded(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
