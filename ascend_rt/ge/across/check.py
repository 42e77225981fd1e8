"""Whether the graphs of all ranks fit together."""

from collections.abc import Iterator, Mapping

from ..dag import Dag
from .calls import Communicator, check_calls, collectives, said
from .finding import Finding, Kind, error_of, place
from .messages import check_messages
from .waiting import check_waiting


def check_ranks(graphs: Mapping[int, Dag]) -> list[Finding]:
    """What is wrong with the graphs of some ranks, launched together; nothing if they end. Runs and asks nothing.

    graphs: by rank of the job. Every member of a communicator that one of them uses must have one.

    Compared are: who is in which communicator; order and arguments of the collectives of each; both sides of all
    messages. If all of them agree, what is left is waiting: a call waits for what its stream, events, control edges and
    communicator have before it, and a collective for the same call of all members, a message for its other side. That
    is the same on every run, whatever is fast or slow, so graphs without a cycle end and those with one never do.
    Cycles are not sought where calls disagree already: a call that is missing makes cycles of its own.
    """
    findings = list(_contradictions(graphs))
    if findings:
        return findings
    findings = list(_members(graphs))
    if findings:
        return findings
    communicators = communicators_of(graphs)
    for communicator in communicators:
        findings += check_calls(communicator, collectives(graphs, communicator))
        findings += check_messages(graphs, communicator)
    return findings or list(check_waiting(graphs, communicators))


def refuse_ranks(graphs: Mapping[int, Dag]) -> None:
    """HcclError (HCCL_E_PARA) with everything that check_ranks finds, if it finds anything."""
    findings = check_ranks(graphs)
    if findings:
        raise error_of(findings)


def communicators_of(graphs: Mapping[int, Dag]) -> list[Communicator]:
    """All that nodes of the graphs use."""
    found = {
        Communicator(name, graph.groups[name].world_ranks)
        for graph in graphs.values()
        for name in {node.communicator for node in graph.nodes}
        if name is not None
    }
    return sorted(found)


def _contradictions(graphs: Mapping[int, Dag]) -> Iterator[Finding]:
    for rank, graph in sorted(graphs.items()):
        try:
            graph.check()
        except ValueError as error:
            yield Finding(Kind.GRAPH, (rank,), (), f"rank {rank}: graph {graph.name!r}: {error}")
            continue
        for node in graph.of_kind("collective"):
            try:
                said(node.task)  # type: ignore[arg-type]
            except ValueError as error:
                yield Finding(Kind.GRAPH, (rank,), (place(rank, node),), f"{place(rank, node)}: {error}")


def _members(graphs: Mapping[int, Dag]) -> Iterator[Finding]:
    for rank, graph in sorted(graphs.items()):
        for group in graph.groups.values():
            members = group.world_ranks
            if len(members) != group.size or members[group.rank : group.rank + 1] != (rank,):
                text = (
                    f"rank {rank}: its graph {graph.name!r} is that of rank {group.rank} of {group.size} in group "
                    f'"{group.name}" of ranks {_listed(members)}; expected the graph of rank {rank}'
                )
                yield Finding(Kind.MEMBERS, (rank,), (), text)
    for communicator in communicators_of(graphs):
        yield from _absent(graphs, communicator)


def _absent(graphs: Mapping[int, Dag], communicator: Communicator) -> Iterator[Finding]:
    """Members that have no graph, or one in which the communicator has other members."""
    for rank in communicator.members:
        head = f'group "{communicator.name}" of ranks {_listed(communicator.members)}'
        if rank not in graphs:
            yield Finding(Kind.MEMBERS, (rank,), (), f"{head}: rank {rank} has no graph; every member needs one")
        else:
            other = graphs[rank].groups.get(communicator.name)
            if other is not None and other.world_ranks != communicator.members:
                own = next(one for one in communicator.members if one in graphs and _is_of(graphs[one], communicator))
                text = f"{head} on rank {own}, and of ranks {_listed(other.world_ranks)} on rank {rank}"
                yield Finding(Kind.MEMBERS, tuple(sorted({own, rank})), (), text)


def _is_of(graph: Dag, communicator: Communicator) -> bool:
    group = graph.groups.get(communicator.name)
    return group is not None and group.world_ranks == communicator.members


def _listed(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks))
