"""Whether tasks stay within their buffers: the core moves what they say, and looks at no bound any more."""

from collections.abc import Iterator, Mapping

from ..plan.collectives import COLLECTIVES
from .nodes import Buffer, Collective, Copy, Group, Memset, Node, Span, View


def check_bounds(node: Node, buffers: Mapping[str, Buffer], groups: Mapping[str, Group]) -> None:
    """ValueError: the task uses bytes outside of its buffers, or more elements than its arrays have."""
    task = node.task
    for span in _spans(node):
        buffer = buffers.get(span.buffer)
        if buffer is None or not 0 <= span.start <= span.stop <= buffer.nbytes:
            has = "which the graph has not" if buffer is None else f"which has {buffer.nbytes} bytes"
            raise ValueError(f"{span} is used, {has}: {node}")
    if isinstance(task, Copy):
        _check_rows(task, node)
    elif isinstance(task, Collective):
        for name, view, least in _needed(task, groups[task.communicator]):
            if view is not None and not 0 <= least <= view.count:
                raise ValueError(f"{name} has not the {least} elements that are used: {node}")


def _spans(node: Node) -> Iterator[Span]:
    yield from (*node.reads, *node.writes)
    if isinstance(node.task, Copy):
        yield from (node.task.to, node.task.source)
    elif isinstance(node.task, Memset):
        yield node.task.to


def _check_rows(task: Copy, node: Node) -> None:
    for span, pitch in ((task.to, task.to_pitch), (task.source, task.source_pitch)):
        last = max(task.rows - 1, 0) * pitch
        if min(task.nbytes, task.rows, pitch) < 0 or (task.rows and last + task.nbytes > span.nbytes):
            raise ValueError(f"{task.rows} rows of {task.nbytes} bytes, {pitch} apart, leave {span}: {node}")


def _needed(task: Collective, group: Group) -> Iterator[tuple[str, View | None, int]]:
    """The arrays of a call, with the elements that it uses of each."""
    if task.split is not None:
        yield from (("x", task.x, stop) for stop in _stops(task.split[0], task.split[1]))
        yield from (("out", task.out, stop) for stop in _stops(task.split[2], task.split[3]))
        return
    spec = COLLECTIVES.get(task.call)
    if spec is not None:  # what is none is told with all that there are, by the check of all ranks
        yield "x", task.x, task.count * spec.blocks_in.on(group.rank, group.size, task.root)
        yield "out", task.out, task.count * spec.blocks_out.on(group.rank, group.size, task.root)


def _stops(counts: tuple[int, ...], starts: tuple[int, ...]) -> Iterator[int]:
    """Behind the last element of each block; negative where a block is none."""
    yield from (start + count if min(start, count) >= 0 else -1 for count, start in zip(counts, starts, strict=False))
