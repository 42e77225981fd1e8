"""MemoryOptions as GE's options ask for them."""

from ..graph import Graph
from ..nodes import Role
from ..options import OptionError, Options
from .plan import MemoryOptions

REUSE, POLICY, INPUTS, OUTPUTS = (
    "ge.exec.disableReuseMemory",
    "ge.exec.staticMemoryPolicy",
    "ge.exec.inputReuseMemIndexes",
    "ge.exec.outputReuseMemIndexes",
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
    )


def _names(options: Options, key: str, graph: Graph, role: Role) -> tuple[str, ...]:
    names = [name for name, buffer in graph.buffers.items() if buffer.role is role]
    indexes = options.value(key)
    if any(index >= len(names) for index in indexes):
        raise OptionError(key, ",".join(map(str, indexes)), f"indexes of its {len(names)} {role}s, from 0")
    return tuple(names[index] for index in sorted(set(indexes)))
