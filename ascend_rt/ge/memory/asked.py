"""MemoryOptions as GE's options ask for them."""

from dataclasses import replace

from ..errors import GraphMemoryError
from ..graph import Graph
from ..nodes import Role
from ..options import OptionError, Options
from .options import MemoryOptions
from .plan import plan_memory

REUSE, POLICY, INPUTS, OUTPUTS, PRIORITY, MOST = (
    "ge.exec.disableReuseMemory",
    "ge.exec.staticMemoryPolicy",
    "ge.exec.inputReuseMemIndexes",
    "ge.exec.outputReuseMemIndexes",
    "ge.exec.memoryOptimizationPolicy",
    "ge.graphMemoryMaxSize",
)


def memory_options(options: Options, graph: Graph) -> MemoryOptions:
    """How the memory of a graph is planned; indexes count its inputs or outputs in the order in which they were made.

    OptionError (E10001): an index beyond them.
    """
    return MemoryOptions(
        reuse=options.value(REUSE) == "0",
        in_turn=options.value(POLICY) != "0",
        input_reuse=_names(options, INPUTS, graph, Role.INPUT),
        output_reuse=_names(options, OUTPUTS, graph, Role.OUTPUT),
        effort=2 if options.value(PRIORITY) == "MemoryPriority" else MemoryOptions.effort,
    )


def check_peak(options: Options, graph: Graph) -> None:
    """GraphMemoryError (EL0004): the graph's own buffers take more than ge.graphMemoryMaxSize."""
    most = options.value(MOST)
    if not most:
        return
    asked_for = memory_options(options, graph)
    plan = plan_memory(graph, replace(asked_for, effort=0))
    if plan.bound <= most < plan.peak:
        plan = plan_memory(graph, asked_for)
    if plan.peak > most:
        ranks = [f"rank {group.world_ranks[group.rank]}: " for group in graph.groups.values()]
        top = [f"  {nbytes:>16,} bytes  {name}  {plan.where(name)}" for name, nbytes in plan.top()]
        text = f"{ranks[0] if ranks else ''}graph {graph.name!r} needs {plan.peak:,} bytes, and {MOST} is {most:,}"
        todo = "set it higher, or ge.recompute to auto; nothing has been allocated or moved"
        raise GraphMemoryError("\n".join([f"{text}; {todo}", "  live at the same time:", *top]))


def _names(options: Options, key: str, graph: Graph, role: Role) -> tuple[str, ...]:
    names = [name for name, buffer in graph.buffers.items() if buffer.role is role]
    indexes = options.value(key)
    if any(index >= len(names) for index in indexes):
        raise OptionError(key, ",".join(map(str, indexes)), f"indexes of its {len(names)} {role}s, from 0")
    return tuple(names[index] for index in sorted(set(indexes)))
