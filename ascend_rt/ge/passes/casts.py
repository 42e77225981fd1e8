"""Narrowing casts: np.copyto(out, x) of two contiguous arrays of one count, to a smaller type.

A cast makes each element by itself. So it gives the same bits whether it comes before or behind what only moves data.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...hccl.types import number_of_dtype
from ..nodes import Buffer, Kernel, Node, View
from ..placement import dtype_named
from .content import Tasks, flat, is_flat
from .rewriting import unused_name


class Cast(NamedTuple):
    place: int
    """among the tasks"""
    node: Node
    x: View
    out: View


def as_cast(place: int, node: Node) -> Cast | None:
    """The task as a cast to a smaller type that HCCL knows, if it is one."""
    task = node.task
    if not isinstance(task, Kernel) or task.function is not np.copyto or len(task.arguments) != 2 or task.keywords:
        return None
    out, x = task.arguments
    if not isinstance(out, View) or not isinstance(x, View) or not is_flat(out, x) or node.after:
        return None
    is_narrowing = out.count == x.count and out.itemsize < x.itemsize
    return Cast(place, node, x, out) if is_narrowing and number_of_dtype(dtype_named(out.dtype)) is not None else None


def only_cast(tasks: Tasks, place: int, result: View) -> Cast | None:
    """The cast of what the task at `place` writes to `result`, if that is all that happens to it."""
    reads = tasks.reads_of(place, result.span)
    found = [as_cast(at, tasks.listed[at]) for at, _ in reads or ()]
    return found[0] if len(found) == 1 and is_movable(tasks, place, result, found[0]) else None


def is_movable(tasks: Tasks, place: int, result: View, cast: Cast | None) -> bool:
    """Whether a cast of `result` can be done by the task at `place`: nothing has to do with what it writes before."""
    if cast is None or (cast.x.span, cast.x.dtype) != (result.span, result.dtype) or not tasks.can_go(cast.node):
        return False
    between, node = (place, cast.place), tasks.listed[place]
    is_free = tasks.is_unused(*between, cast.out.span)
    is_apart = not any(span.overlaps(cast.out.span) for span in (result.span, *node.reads, *node.writes))
    return is_free and is_apart and tasks.is_unwritten(*between, result.span)


def cast_before(node: Node, cast: Node, out: View, x: View) -> Node:
    """The task `cast`, of other arrays, where it can come before `node`."""
    kernel = Kernel(np.copyto, (flat(out), flat(x)))
    return replace(cast, task=kernel, reads=(x.span,), writes=(out.span,), after=node.after)


def scratch(buffers: dict[str, Buffer], like: View, dtype: str) -> View:
    """A buffer of the graph's own for the elements of another type, which is added to `buffers`."""
    name, itemsize = unused_name(buffers, "narrow"), dtype_named(dtype).itemsize
    buffers[name] = Buffer(name, like.count * itemsize, dtype, (like.count,))
    return View(name, 0, dtype, (like.count,), None, itemsize)
