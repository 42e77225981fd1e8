"""What has to come before what, since it uses the same bytes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .nodes import Node, Span


class DataEdge(NamedTuple):
    """Node `after` uses bytes that node `before` uses, and one of them writes them; ids."""

    before: int
    after: int
    buffer: str
    """"" where one of them is opaque"""
    kind: str
    """raw (reads what was written), war (writes what was read), waw, or opaque"""


class _Use(NamedTuple):
    node: int
    span: Span
    writes: bool


def data_edges(nodes: Sequence[Node]) -> Iterator[DataEdge]:
    """See Graph.data_edges; an edge may come several times."""
    used: dict[str, list[_Use]] = {}
    since_opaque: list[int] = []
    opaque: int | None = None
    for node in nodes:
        if node.is_opaque:
            yield from (DataEdge(before, node.id, "", "opaque") for before in since_opaque)
            used, since_opaque, opaque = {}, [node.id], node.id
            continue
        if node.reads or node.writes:
            if opaque is not None:
                yield DataEdge(opaque, node.id, "", "opaque")
            since_opaque.append(node.id)
        own = [_Use(node.id, span, False) for span in node.reads] + [_Use(node.id, span, True) for span in node.writes]
        for use in own:
            for other in used.get(use.span.buffer, ()):
                if (use.writes or other.writes) and use.span.overlaps(other.span):
                    kind = "raw" if not use.writes else "waw" if other.writes else "war"
                    yield DataEdge(other.node, node.id, use.span.buffer, kind)
        for use in own:
            before = used.setdefault(use.span.buffer, [])
            if use.writes:
                before[:] = [other for other in before if other.node == node.id or not use.span.covers(other.span)]
            before.append(use)
