"""Ranks compare their graphs before the first launch: what fits together goes on, what does not is refused on all."""

import re

import pytest

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.ge.across.agree import agree
from ascend_rt.hccl import HcclError
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


def call(id: int, group: str, count: int = 4) -> ge.Node:
    return ge.Node(id, "n", 0, ge.Collective("all_reduce", group, "float32", count), line=f"step.py:{id}")


def transfer(id: int, group: str, *messages: tuple[bool, int]) -> ge.Node:
    items = tuple(ge.Message(receives, peer, ge.View("", 0, "int8", (4,))) for receives, peer in messages)
    return ge.Node(id, "n", 0, ge.Transfer("batch_send_recv", group, items), line=f"step.py:{id}")


def graph_of(comm: rt.Communicator, *nodes: ge.Node) -> ge.Graph:
    """A graph by hand, which nobody can launch: the groups "a" and "b" are not made."""
    own, world = comm.world_ranks[comm.rank], comm.world_ranks
    members = {comm.name: world, "a": world, "b": world[::-1]}
    groups = {name: ge.Group(name, ranks.index(own), len(ranks), ranks) for name, ranks in members.items()}
    return ge.Graph(nodes, {}, groups, name="step")


def identities(comm: rt.Communicator) -> list[int]:
    w = comm.name
    alike = graph_of(comm, call(1, w), call(2, w, count=comm.size))
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ring = graph_of(comm, transfer(1, w, (False, right), (True, left)), call(2, w))
    return [agree(graph, comm).identity for graph in (alike, ring, alike)]


@pytest.mark.parametrize("size", [1, 3])
def test_graphs_that_fit_together_get_an_identity_that_all_ranks_have_alike(ranks: RankPool, size: int) -> None:
    first, *others = ranks.run(size, identities)
    assert len(set(first)) == 3
    assert others == [first] * (size - 1)


def refusals(comm: rt.Communicator) -> list[tuple[str, tuple[int, ...], str]]:
    odd, w = comm.rank == 1, comm.name
    calls = [call(1, "a"), call(2, "b")]
    told = []
    for graph in (
        graph_of(comm, call(1, w, count=5 if odd else 4)),
        graph_of(comm, *[call(1, w)] * (not odd)),
        graph_of(comm, *(reversed(calls) if odd else calls)),
        graph_of(comm, *[transfer(1, w, (False, 0))] * odd),
    ):
        try:
            agree(graph, comm)
        except HcclError as error:
            told.append((error.ei, tuple(comm.world_ranks.index(rank) for rank in error.ranks), str(error)))
    return told


def test_graphs_that_do_not_are_refused_on_every_rank_alike(ranks: RankPool) -> None:
    first, *others = ranks.run(3, refusals)
    assert others == [first] * 2
    assert [(ei, at_fault) for ei, at_fault, _ in first] == [
        ("EI0005", (1,)),
        ("EI0005", (1,)),
        ("E19999", (1, 2)),
        ("EI0005", (0, 1)),
    ]
    assert "count=5" in first[0][2] and "a cycle, in which" in first[2][2]


def launched(comm: rt.Communicator) -> list[str]:
    """Graphs that all ranks launch alike, then rank 1 the other one, then all alike again."""
    stream = rt.Stream()
    x = [rt.zeros(4) for _ in range(2)]
    graphs = []
    for number in range(2):
        with ge.capture(stream, name=f"step {number}") as graph:
            comm.all_reduce(x[number], stream=stream)
        graph.launch(stream)
        stream.synchronize()
        graphs.append(graph)
    told = []
    for chosen in (graphs[0], graphs[comm.rank == 1], graphs[1]):
        x[0][...], x[1][...] = 1, 2
        chosen.launch(stream)
        try:
            stream.synchronize()
            told.append(f"{x[0][0]:.0f} {x[1][0]:.0f}")
        except HcclError as error:
            told.append(str(error))
    return told


def test_ranks_that_launch_different_graphs_are_refused_on_every_rank(ranks: RankPool) -> None:
    for first, mixed, then in ranks.run(3, launched):
        assert (first, then) == ("3 2", "1 6")
        assert mixed.splitlines()[0].endswith("the ranks do not agree on graph")
        assert re.search(r"rank 1.* \(graph 'step 1'\)  launch graph=\w{8}  !", mixed)
        assert re.search(r"rank 0.* \(graph 'step 0'\)  launch graph=\w{8}", mixed)


def first_launches(comm: rt.Communicator) -> list[str]:
    stream, x = rt.Stream(), rt.zeros((comm.size, 4))
    told = []
    for number in range(3):
        with ge.capture(stream) as graph:
            comm.all_reduce(x[: 1 + (number == 1 and comm.rank == 1)], stream=stream)
        try:
            graph.launch(stream)
            stream.synchronize()
            told.append("launched")
        except HcclError as error:
            told.append(error.ei)
    return told


def test_the_first_launch_compares_by_itself_and_queues_nothing_that_would_hang(ranks: RankPool) -> None:
    assert ranks.run(2, first_launches) == [["launched", "EI0005", "launched"]] * 2
