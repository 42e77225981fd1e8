"""The data model: order, data edges, text and JSON; nothing runs."""

import json
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt import ge

pytestmark = pytest.mark.proof

A, B = ge.Buffer("a", 64, "float32", (16,)), ge.Buffer("b", 64, "float32", (16,), ge.Role.INPUT, 0x1000)


def kernel(id: int, stream: int = 0, reads: Any = (), writes: Any = (), after: Any = (), **more: Any) -> ge.Node:
    task = ge.Kernel(operator.add, (1, 2), **more)
    return ge.Node(id, f"k{id}", stream, task, tuple(reads), tuple(writes), tuple(after), "step.py:3")


def record(id: int, stream: int, event: int) -> ge.Node:
    return ge.Node(id, "record", stream, ge.Record(event))


def wait(id: int, stream: int, event: int) -> ge.Node:
    return ge.Node(id, "wait", stream, ge.Wait(event))


@st.composite
def node_lists(draw: Any) -> list[ge.Node]:
    """Kernels that use bytes of two buffers, events and control edges on up to four streams."""
    nodes: list[ge.Node] = []
    events = 0
    spans = st.tuples(st.sampled_from("ab"), st.integers(0, 6), st.integers(1, 4)).map(
        lambda parts: ge.Span(parts[0], 8 * parts[1], 8 * parts[2])
    )
    for id in range(draw(st.integers(0, 14))):
        stream, kind = draw(st.integers(0, 3)), draw(st.sampled_from("kkkrw"))
        if kind == "w" and events:
            nodes.append(wait(id, stream, draw(st.integers(0, events - 1))))
        elif kind == "r":
            nodes.append(record(id, stream, events))
            events += 1
        else:
            after = draw(st.lists(st.integers(0, id - 1), max_size=2, unique=True)) if id else []
            uses = st.lists(spans, max_size=2)
            nodes.append(kernel(id, stream, draw(uses), draw(uses), after, is_opaque=draw(st.integers(0, 9)) == 0))
    return nodes


def closure(nodes: list[ge.Node]) -> set[tuple[int, int]]:
    """All pairs of which the first comes before the second, by following edges from every node."""
    edges = [(edge.before, edge.after) for edge in ge.Order(nodes).edges]
    pairs = set(edges)
    while more := {(a, d) for a, b in pairs for c, d in edges if b == c} - pairs:
        pairs |= more
    return pairs


@given(node_lists())
def test_before_is_the_closure_of_all_edges(nodes: list[ge.Node]) -> None:
    order, pairs = ge.Order(nodes), closure(nodes)
    ids = [node.id for node in nodes]
    assert {(a, b) for a in ids for b in ids if order.before(a, b)} == pairs
    matrix = order.matrix()
    assert {(ids[i], ids[j]) for i, j in np.argwhere(matrix)} == pairs
    assert all(order.ordered(a, b) == ((a, b) in pairs or (b, a) in pairs) for a in ids for b in ids)


def conflict(first: ge.Node, second: ge.Node) -> bool:
    """Whether both use a byte that one of them writes, byte by byte."""

    def held(spans: tuple[ge.Span, ...]) -> set[tuple[str, int]]:
        return {(span.buffer, byte) for span in spans for byte in range(span.start, span.stop)}

    w1, w2, r1, r2 = (held(spans) for spans in (first.writes, second.writes, first.reads, second.reads))
    idle = [not (node.reads or node.writes) and not node.is_opaque for node in (first, second)]
    return bool(w1 & (w2 | r2) or w2 & r1) or ((first.is_opaque or second.is_opaque) and not any(idle))


@given(node_lists())
def test_data_edges_put_every_pair_that_conflicts_in_order_and_no_other(nodes: list[ge.Node]) -> None:
    graph = ge.Graph(nodes)
    edges = {(edge.before, edge.after) for edge in graph.data_edges()}
    pairs = {(a.id, b.id) for i, a in enumerate(nodes) for b in nodes[i + 1 :] if conflict(a, b)}
    assert edges <= pairs
    reached = set(edges)
    while more := {(a, d) for a, b in reached for c, d in edges if b == c} - reached:
        reached |= more
    assert pairs <= reached
    unordered = {(a, b) for a, b in pairs if not graph.order.before(a, b)}
    assert bool(graph.races()) == bool(unordered)
    assert {(race.before, race.after) for race in graph.races()} <= unordered


def test_kinds_of_data_edges() -> None:
    whole, half = ge.Span("a", 0, 64), ge.Span("a", 0, 32)
    nodes = [kernel(0, writes=[whole]), kernel(1, reads=[half]), kernel(2, writes=[half]), kernel(3, reads=[whole])]
    assert [tuple(edge) for edge in ge.Graph(nodes, {"a": A}).data_edges()] == [
        (0, 1, "a", "raw"),
        (0, 2, "a", "waw"),
        (1, 2, "a", "war"),
        (0, 3, "a", "raw"),
        (2, 3, "a", "raw"),
    ]


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([wait(0, 0, 5)], "a wait for an event that no node before it records"),
        ([wait(0, 0, 1), record(1, 1, 1)], "a wait for an event that no node before it records"),
        ([record(0, 0, 1), record(1, 1, 1)], "event 1 is recorded twice"),
        ([kernel(0, after=[1]), kernel(1)], "from node 1, which is listed behind it: a cycle"),
        ([kernel(0, after=[7])], "from node 7, which the graph has not"),
        ([kernel(0), kernel(0)], "two nodes have the same id"),
    ],
)
def test_nodes_in_no_order_are_refused(nodes: list[ge.Node], reason: str) -> None:
    with pytest.raises(ge.OrderError, match=reason):
        ge.Graph(nodes).check()


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        (ge.Span("c", 0, 4), r"c\[0:4\] is used, which the graph has not"),
        (ge.Span("a", 60, 8), r"a\[60:68\] is used, which has 64 bytes"),
        (ge.Span("a", -4, 8), r"a\[-4:4\] is used, which has 64 bytes"),
    ],
)
def test_memory_that_is_not_there_is_refused(span: ge.Span, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ge.Graph([kernel(0, reads=[span])], {"a": A}).check()


def test_a_communicator_that_is_not_there_is_refused() -> None:
    node = ge.Node(0, "x", 0, ge.Collective("barrier", "world", "int8", 0))
    with pytest.raises(ValueError, match="communicator 'world' is used, which the graph has not"):
        ge.Graph([node]).check()


@pytest.mark.parametrize("strides", [None, (32, 8), (-32, 8), (32, -8), (0, 8)])
def test_the_span_of_a_view_is_what_numpy_addresses(strides: tuple[int, int] | None) -> None:
    memory = np.zeros(512, np.uint8)
    start = 256 + 4
    view = ge.View("a", start, "float32", (3, 5), strides, 4)
    array = np.lib.stride_tricks.as_strided(memory[start:].view(np.float32), (3, 5), strides or (20, 4))
    low, high = (np.byte_bounds if np.__version__ < "2" else np.lib.array_utils.byte_bounds)(array)
    base = memory.__array_interface__["data"][0]
    assert view.span == ge.Span("a", low - base, high - low)


def whole_graph() -> ge.Graph:
    """A node of every kind."""
    x = ge.View("a", 0, "float32", (2, 4), (32, 8), 4)
    y = ge.View("b", 16, "float32", (4,), None, 4)
    tasks: list[ge.nodes.Task] = [
        ge.Kernel(operator.add, (x, (1, [2.5, None])), {"by": np.float32(0.5), "at": slice(1, None), "of": {3: y}}),
        ge.Collective("all_reduce", "world", "float32", 4, "max", 0, y, y),
        ge.Collective("all_gather_v", "world", "float32", 0, "sum", 0, y, x, ((1,), (0,), (1, 2), (0, 1))),
        ge.Collective("barrier", "world", "int8", 0),
        ge.Transfer("batch_send_recv", "world", (ge.Message(False, 1, y), ge.Message(True, 1, x))),
        ge.Copy(ge.Span("a", 0, 24), ge.Span("b", 8, 24), 8, 2, 16, 16),
        ge.Memset(ge.Span("a", 0, 64), 255),
        ge.Record(0),
        ge.Wait(0),
    ]
    nodes = [
        ge.Node(2 * i, f"n{i}", i % 2, task, (y.span,), (x.span,), (0,) if i else (), f"step.py:{i}")
        for i, task in enumerate(tasks)
    ]
    groups = {"world": ge.Group("world", 0, 2, (0, 1))}
    return ge.Graph(nodes, {"a": A, "b": B}, groups, name="step", log=["made"])


def test_json_gives_the_same_graph_back() -> None:
    graph = whole_graph()
    read = ge.Graph.from_json(graph.to_json())
    assert read.nodes == graph.nodes
    assert (read.buffers, read.groups, read.log, read.name) == (graph.buffers, graph.groups, graph.log, graph.name)
    assert read.to_json() == graph.to_json()
    assert str(read) == str(graph)


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (lambda: None, (), "'<lambda>'.* cannot be imported by name"),
        (operator.add, (object(),), "a object .*expected numbers, text, tuples, lists, dicts"),
        (operator.add, (np.zeros(3),), "a ndarray"),
    ],
)
def test_what_has_no_plain_form_names_the_node(function: Any, arguments: Any, reason: str) -> None:
    node = ge.Node(4, "k", 0, ge.Kernel(function, arguments), line="step.py:9")
    with pytest.raises(ValueError, match=rf"node 4 \(step.py:9\) cannot be written down: {reason}"):
        ge.Graph([node]).to_json()


def edit(change: Any) -> str:
    form = json.loads(whole_graph().to_json())
    change(form)
    return json.dumps(form)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no graph"),
        ("[]", "expected an object whose format is 'ascend_rt graph'"),
        (edit(lambda form: form.update(version=9)), "a graph of version 9; expected 1"),
        (edit(lambda form: form.pop("groups")), "no graph: KeyError: 'groups'"),
        (edit(lambda form: form["nodes"][0].update(kind="x")), "a node of kind 'x'; expected kernel, collective"),
        (edit(lambda form: form["nodes"][0]["task"].update(function="operator:nothing")), "cannot be imported"),
        (edit(lambda form: form["nodes"][0]["task"].update(function="math:pi")), "a float; expected a function"),
        (edit(lambda form: form["nodes"][8].update(task={"event": 3})), "a wait for an event"),
        (edit(lambda form: form["nodes"][1]["task"].update(much=1)), "no graph: TypeError"),
    ],
)
def test_text_that_is_no_graph_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ge.Graph.from_json(text)


def test_a_pass_leaves_a_line_and_the_old_graph_as_it_was() -> None:
    graph = whole_graph()
    fewer = graph.replace("dropped the memset", nodes=[node for node in graph.nodes if node.kind != "memset"])
    assert (len(graph.nodes), len(fewer.nodes)) == (9, 8)
    assert fewer.log == ("made", "dropped the memset")
    assert "pass: dropped the memset" in str(fewer)
    assert (graph.next_id, graph.streams) == (17, [0, 1])
    with pytest.raises(ge.OrderError):
        graph.replace("dropped the record", nodes=[node for node in graph.nodes if node.kind != "record"])


def test_text_says_what_there_is() -> None:
    text = str(whole_graph())
    assert text.splitlines()[0] == (
        "graph 'step': 9 nodes on 2 streams (1 kernel, 3 collective, 1 transfer, 1 copy, 1 memset, 1 record, 1 wait), "
        "2 buffers of 128 bytes"
    )
    assert "all_reduce of 'world', 4 x float32, max, root 0, in place after 0  (step.py:1)" in text
    assert "b: input, 64 bytes, float32[16], at 0x1000" in text
