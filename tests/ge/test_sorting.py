"""Other orders of nodes keep what comes first, and the calls of every communicator."""

import pytest

from ascend_rt import ge
from ascend_rt.ge.sorting import Sorting, sort_nodes

from .across.programs import right

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("sorting", list(Sorting))
def test_programs_stay_right_in_every_order(sorting: Sorting) -> None:
    for seed in range(20):
        program = right(seed)
        listed = {rank: sort_nodes(graph, sorting) for rank, graph in program.items()}
        assert ge.check_ranks(listed) == []
        for rank, graph in program.items():
            ids = [node.id for node in listed[rank].nodes]
            assert sorted(ids) == sorted(node.id for node in graph.nodes)
            assert all(ids.index(edge.before) < ids.index(edge.after) for edge in graph.order.edges)


def test_how_two_streams_take_turns() -> None:
    b = ge.Builder(0, {})
    x, y = b.input("x", (4,)), b.input("y", (4,))
    for _ in range(2):
        b.kernel(print, x, reads=[x], stream=0)
        b.kernel(print, y, reads=[y], stream=1)
    graph = b.graph()
    orders = {sorting.name: [node.stream for node in sort_nodes(graph, sorting).nodes] for sorting in Sorting}
    assert orders == {"BFS": [0, 1, 0, 1], "DFS": [0, 0, 1, 1], "RDFS": [0, 0, 1, 1], "STABLE_RDFS": [0, 1, 0, 1]}
    assert sort_nodes(graph, Sorting.DFS).log == ("listed by DFS",)
