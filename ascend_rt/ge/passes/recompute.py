"""What would not fit otherwise is computed again where it is used late, instead of being kept meanwhile.

While the planned peak is above ge.graphMemoryMaxSize, the buffers are given up that free the most bytes at the peak for
a microsecond of the kernels that have to run again, as measured. What these take is kept longer for that, or, if
it was not in use at the peak, is computed again as well. Every source runs twice at most. The bits are the same, since
only what is pure runs again (sources). This pass is off unless ge.recompute is auto.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..costs import Costs
from ..errors import GraphMemoryError
from ..graph import Graph
from ..memory.options import MemoryOptions
from ..memory.plan import MemoryPlan, plan_memory
from ..timeline import simulate
from .recomputed import Program, Recomputed
from .sources import Source
from .terms import Terms

CAP = "ge.graphMemoryMaxSize"
Planned = MemoryPlan[Graph]


def recompute(graph: Graph, terms: Terms) -> Graph:
    """Fit the graph's own buffers into ge.graphMemoryMaxSize bytes.

    GraphMemoryError (EL0004): they do not fit, whatever is computed again. Nothing has been allocated or moved.
    """
    most: int = terms.options.value(CAP)
    before = _planned(graph, terms, most)
    if not most or before.peak <= most:
        return graph
    now = Program(graph, terms.costs).recomputed({})
    assert now is not None  # nothing runs again yet
    after = before
    while after.peak > most:
        better = _better(now)
        if better is None:
            raise GraphMemoryError(_explained(before, _planned(now.graph()[0], terms, most), now, most))
        now = better
        if now.peak <= most:
            after = _planned(now.graph()[0], terms, most)
    done, first = now.graph()
    return graph.replace(_did(before, after, now, terms.costs, first), nodes=done.nodes, buffers=done.buffers)


def _planned(graph: Graph, terms: Terms, most: int) -> Planned:
    """The plan; with a search for a better one only if that decides whether it fits."""
    options = MemoryOptions(reuse=terms.options.value("ge.exec.disableReuseMemory") == "0", effort=0)
    plan = plan_memory(graph, options)
    return plan_memory(graph, replace(options, effort=1)) if plan.bound <= most < plan.peak else plan


# ---- what to give up ----


def _better(now: Recomputed) -> Recomputed | None:
    """With what frees the most bytes at the peak for a microsecond; None: nothing frees any, or only by a higher peak
    elsewhere."""
    at = int(now.live.argmax())
    entry = now.listed[at]
    start = entry.before + (not entry.key.is_again)
    best, best_rate = None, 0.0
    found = list(_candidates(now, at, start))
    for source, most in sorted(found, key=lambda each: (-each[1], _at_once(now, each[0]))):
        if most <= best_rate * (1 + 1e-6):
            break
        for sources in _with_inputs(now, source, at, start):
            tried = now.program.recomputed({**now.choice, **dict.fromkeys(sources, start)})
            if tried is None or tried.peak > now.peak:
                continue
            rate = _rate(int(now.live[at] - tried.live[tried.places[entry.key]]), tried.us - now.us)
            if rate > best_rate:
                best, best_rate = tried, rate
    return best


def _candidates(now: Recomputed, at: int, start: int) -> Iterator[tuple[Source, float]]:
    """What is done before the task at `at`, and kept over it; with the most bytes that it can free in a microsecond."""
    used = {span.buffer for span in (*now.listed[at].node.reads, *now.listed[at].node.writes)}
    for source in now.program.sources:
        if source not in now.choice and source.places[-1] < start:
            kept = [name for name in source.buffers - used if now.is_live(name, at)]
            nbytes = sum(now.program.nbytes[name] for name in kept)
            if nbytes:
                yield source, _rate(nbytes, sum(now.program.us[place] for place in source.places))


def _at_once(now: Recomputed, source: Source) -> int:
    """How many sources that take from one another would run again, of which this is one: their results are kept
    together. So of equal candidates those go first that leave the runs short, as checkpoints at equal distances do."""
    linked = {each: now.program.inputs(each) for each in (*now.choice, source)}
    found, waiting = {source}, [source]
    while waiting:
        one = waiting.pop()
        beside = [each for each in linked if each not in found and (each in linked[one] or one in linked[each])]
        found |= {*beside}
        waiting += beside
    return len(found)


def _with_inputs(now: Recomputed, source: Source, at: int, start: int) -> Iterator[list[Source]]:
    """The source, whose inputs are kept then; and with inputs that would be kept over the peak for that alone."""
    yield [source]
    found, waiting = [source], [source]
    while waiting:
        for other in now.program.inputs(waiting.pop()):
            is_kept = other in now.choice or any(now.is_live(name, at) for name in other.buffers)
            if other not in found and not is_kept and other.places[-1] < start:
                found.append(other)
                waiting.append(other)
    if len(found) > 1:
        yield found


def _rate(nbytes: int, us: float) -> float:
    return nbytes / max(us, 1e-3)


# ---- what is said ----


def _did(before: Planned, after: Planned, now: Recomputed, costs: Costs, first: dict[int, int]) -> str:
    kernels = dict(costs.kernels)
    kernels |= {id: kernels[same] for id, same in first.items() if same in kernels}
    steps = [simulate(plan.graph, replace(costs, kernels=kernels)).step_us for plan in (before, after)]
    return (
        f"recompute: {len(now.again)} tasks run again, planned peak {before.peak:,} -> {after.peak:,} bytes; they take "
        f"{now.us:.0f} us, step {steps[0]:.0f} -> {steps[1]:.0f} us"
    )


def _explained(before: Planned, least: Planned, now: Recomputed, most: int) -> str:
    graph = before.graph
    ranks = [f"rank {group.world_ranks[group.rank]}: " for group in graph.groups.values()]
    sources = sum(len(source.buffers) for source in now.program.sources)
    lines = [
        f"{ranks[0] if ranks else ''}graph {graph.name!r} needs {before.peak:,} bytes, and {CAP} is {most:,}; with "
        f"recomputation it needs {least.peak:,}, and {now.us:.0f} us more; nothing has been allocated or moved",
        f"  what may run again makes {sources} of the tensors: NumPy's ufuncs and copyto, and functions that say so by "
        f"function.pure = True",
        "  live at the same time:",
        *(f"  {nbytes:>16,} bytes  {name}  {least.where(name)}" for name, nbytes in least.top()),
        f"{least.peak:,} bytes would do, or a step of {most / least.peak:.0%} of this size: a smaller batch, or more "
        f"ranks to share the model.",
    ]
    return "\n".join(lines)
