"""The check of the graphs of all ranks: seeded programs, right and wrong, beside a simulator that runs them."""

import dataclasses
import random
import re

import pytest

from ascend_rt import ge
from ascend_rt.ge.across.finding import Kind
from ascend_rt.hccl import HcclError

from .programs import WRONG, Program, graph_of, group_members, right, wrong
from .simulator import End, Simulator

pytestmark = pytest.mark.proof

KINDS = {
    "swapped_order": {Kind.CALLS},
    "missing_rank": {Kind.CALLS},
    "mismatched_argument": {Kind.CALLS, Kind.COUNTS},
    "crossed_streams": {Kind.CYCLE},
    "unmatched_send": {Kind.MESSAGE},
    "another_graph": {Kind.CALLS, Kind.MESSAGE},
}


@pytest.mark.parametrize("seed", range(100))
def test_right_programs_pass_and_end(seed: int) -> None:
    program = right(seed)
    assert [str(finding) for finding in ge.check_ranks(program)] == []
    ge.refuse_ranks(program)
    assert {Simulator(program, interleaving).run() for interleaving in range(2)} == {End.DONE}


@pytest.mark.parametrize("seed", range(100))
def test_wrong_programs_are_refused_with_the_ranks_at_fault(seed: int) -> None:
    how, program, rank = wrong(seed)
    findings = ge.check_ranks(program)
    assert findings, how
    for finding in findings:
        assert finding.kind in KINDS[how]
        assert rank in finding.ranks, finding.text
        assert all(re.search(rf"\brank {one}\b", finding.text) for one in finding.ranks)
        assert all(at.line in finding.text and f"node {at.node}" in finding.text for at in finding.places)
        assert how == "crossed_streams" or len(finding.ranks) <= 2
        if finding.kind is Kind.CALLS and members_of(finding, program) > 2:
            assert finding.ranks == (rank,), finding.text
    with pytest.raises(HcclError) as refused:
        ge.refuse_ranks(program)
    assert (refused.value.name, rank in refused.value.ranks) == ("HCCL_E_PARA", True)
    assert Simulator(program, seed).run() is not End.DONE


def members_of(finding: ge.Finding, program: Program) -> int:
    name = re.search(r'of group "(\w+)"', finding.text)
    assert name
    return max(len(group_members(graph).get(name[1], ())) for graph in program.values())


def test_every_way_to_be_wrong_is_among_the_seeds() -> None:
    assert {wrong(seed)[0] for seed in range(len(WRONG))} == set(KINDS)


def jumbled(seed: int) -> Program:
    """A right program in which nodes of some ranks have changed places at random: it may hang, or not."""
    draw = random.Random(seed)
    program = right(seed)
    for _ in range(draw.randint(1, 4)):
        rank = draw.choice(list(program))
        nodes = list(program[rank].nodes)
        at = draw.randrange(max(1, len(nodes)))
        nodes[at : at + 3] = sorted(nodes[at : at + 3], key=lambda _: draw.random())
        graph = graph_of(rank, nodes, group_members(program[rank]))
        try:
            graph.check()
        except ge.OrderError:
            continue
        program[rank] = graph
    return program


def test_what_passes_ends_and_what_is_refused_does_not() -> None:
    ends = {End.DONE: 0, End.DEADLOCK: 0, End.MISMATCH: 0}
    cycles = 0
    for seed in range(150):
        program = jumbled(seed)
        findings = ge.check_ranks(program)
        for interleaving in range(2):
            end = Simulator(program, interleaving).run()
            assert (end is End.DONE) == (not findings), (seed, end, findings)
        if findings and findings[0].kind is Kind.CYCLE:
            assert end is End.DEADLOCK
            cycles += 1
        ends[end] += 1
    assert min(ends.values()) > 10 and cycles > 10, (ends, cycles)


@pytest.mark.thorough
def test_what_passes_ends_and_what_is_refused_does_not_at_length() -> None:
    for seed in range(150, 3000):
        program = jumbled(seed)
        findings = ge.check_ranks(program)
        assert (Simulator(program, seed).run() is End.DONE) == (not findings), seed


# ---- words ----


def call(id: int, group: str, stream: int = 0, **arguments: object) -> ge.Node:
    task = ge.Collective("all_reduce", group, "float32", 4)
    return ge.Node(id, "n", stream, dataclasses.replace(task, **arguments), line=f"step.py:{id}")  # type: ignore[arg-type]


def transfer(id: int, *messages: tuple[bool, int, int], stream: int = 0) -> ge.Node:
    items = tuple(ge.Message(receives, peer, ge.View("", 0, "int8", (count,))) for receives, peer, count in messages)
    return ge.Node(id, "n", stream, ge.Transfer("batch_send_recv", "w", items), line=f"step.py:{id}")


def program(*nodes: list[ge.Node], **groups: tuple[int, ...]) -> Program:
    groups = groups or {"w": tuple(range(len(nodes)))}
    return {rank: graph_of(rank, own, groups) for rank, own in enumerate(nodes)}


def test_the_cycle_is_told_with_ranks_nodes_lines_and_what_ties_them() -> None:
    events = [call(1, "a", 0), ge.Node(2, "r", 0, ge.Record(7), line="step.py:2")]
    events += [ge.Node(3, "w", 1, ge.Wait(7), line="step.py:3"), call(4, "b", 1)]
    (finding,) = ge.check_ranks(program(events, [call(1, "b"), call(2, "a")], a=(0, 1), b=(1, 0)))
    assert (finding.kind, finding.ranks) == (Kind.CYCLE, (0, 1))
    assert [tuple(at) for at in finding.places] == [(1, 2, "step.py:2"), (0, 4, "step.py:4")]
    assert finding.text.splitlines()[:3] == [
        "rank 0, rank 1: a cycle, in which each call waits for the next for ever",
        '  rank 1: call #1 of group "a" (all_reduce, step.py:2, node 2) comes behind call #1 of group "b" '
        "(all_reduce, step.py:1, node 1), by stream 0",
        '  rank 0: call #1 of group "b" (all_reduce, step.py:4, node 4) comes behind call #1 of group "a" '
        "(all_reduce, step.py:1, node 1), by stream 1, event 7 (recorded at step.py:2, waited for at step.py:3), "
        "stream 0",
    ]


def test_a_rank_that_lacks_a_call_or_has_it_too_often_or_late_is_told_so() -> None:
    one, two = call(1, "w"), call(2, "w", op="max")
    (lacks,) = ge.check_ranks(program([one, two], [two], [one, two]))
    assert (lacks.kind, lacks.ranks, lacks.places) == (Kind.CALLS, (1,), ((1, 2, "step.py:2"),))
    assert lacks.text.splitlines() == [
        'all_reduce #1 of group "w": the ranks do not agree on op',
        "  rank 0 (step.py:1, node 1)  all_reduce count=4 dtype=float32 op=sum",
        "  rank 1 (step.py:2, node 2)  all_reduce count=4 dtype=float32 op=max  !",
        "  rank 2 (step.py:1, node 1)  all_reduce count=4 dtype=float32 op=sum",
        "rank 1 lacks call #1: without it, all of its calls are those of the others.",
    ]
    (beyond,) = ge.check_ranks(program([two], [two], [one, two]))
    assert beyond.text.endswith(
        "rank 2 has call #1 beyond those of the others: without it, all of its calls are theirs."
    )
    (late,) = ge.check_ranks(program([two, one], [one, two], [one, two]))
    assert late.text.endswith("rank 0 makes calls #1 and #2 in the other order.")
    (ends,) = ge.check_ranks(program([one, two], [one], [one, two]))
    assert "  rank 1  no further call  !" in ends.text and ends.places == ()


def test_two_ranks_that_differ_are_both_at_fault() -> None:
    (finding,) = ge.check_ranks(program([call(1, "w")], [call(1, "w", dtype="int8")]))
    assert finding.ranks == (0, 1)
    assert finding.text.endswith("Every rank must pass arrays of the same dtype.")


def test_counts_between_two_ranks() -> None:
    def sends(to: tuple[int, ...], expects: tuple[int, ...]) -> list[ge.Node]:
        return [call(1, "w", call="all_to_all_v", count=0, split=(to, (), expects, ()))]

    rows = sends((1, 2, 3), (1, 4, 7)), sends((4, 5, 6), (2, 5, 9)), sends((7, 8, 9), (3, 6, 9))
    (finding,) = ge.check_ranks(program(*rows))
    assert (finding.kind, finding.ranks) == (Kind.COUNTS, (1, 2))
    assert "rank 2 sends 8 elements to rank 1, which expects 9" in finding.text


def test_blocks_of_one_side_only_differ_in_count() -> None:
    def gathers(count: int) -> list[ge.Node]:
        return [call(1, "w", call="all_gather_v", count=0, split=((count, 0), (0, 0), (3, 5), (0, 3)))]

    def scatters(count: int) -> list[ge.Node]:
        return [call(1, "w", call="reduce_scatter_v", count=0, split=((3, 5), (0, 3), (count, 0), (0, 0)))]

    for side in gathers, scatters:
        assert ge.check_ranks(program(side(3), side(5))) == []
        (finding,) = ge.check_ranks(program(side(3), side(4)))
        assert (finding.kind, 1 in finding.ranks) == (Kind.COUNTS, True)


def test_messages_whose_sides_differ_or_are_missing() -> None:
    one_sided = program([transfer(1, (False, 1, 4))], [], w=(0, 1))
    (finding,) = ge.check_ranks(one_sided)
    assert (finding.kind, finding.ranks, finding.places) == (Kind.MESSAGE, (0, 1), ((0, 1, "step.py:1"),))
    assert finding.text.splitlines()[:3] == [
        'message #1 from rank 0 to rank 1 of group "w" has only one side',
        "  rank 0 (step.py:1, node 1)  send of 4 x int8",
        "  rank 1 does not receive it",
    ]
    (finding,) = ge.check_ranks(program([transfer(1, (False, 1, 4))], [transfer(2, (True, 0, 5))]))
    assert "its two sides do not agree on count" in finding.text
    (finding,) = ge.check_ranks(program([transfer(1, (False, 2, 4))], []))
    said = 'rank 0 (step.py:1, node 1): a message for or from rank 2 of group "w"; expected a rank, 0 to 1'
    assert finding.text == said


def test_sends_that_face_each_other_hang_and_a_batch_does_not() -> None:
    sends = [[transfer(1, (False, 1 - rank, 4)), transfer(2, (True, 1 - rank, 4))] for rank in range(2)]
    (finding,) = ge.check_ranks(program(*sends))
    assert (finding.kind, finding.ranks) == (Kind.CYCLE, (0, 1))
    assert "message #1 from rank 1 to rank 0" in finding.text and "batch_send_recv" in finding.text
    batches = [[transfer(1, (False, 1 - rank, 4), (True, 1 - rank, 4))] for rank in range(2)]
    assert ge.check_ranks(program(*batches)) == []
    beside = [[transfer(1, (False, 1 - rank, 4)), transfer(2, (True, 1 - rank, 4), stream=1)] for rank in range(2)]
    assert ge.check_ranks(program(*beside)) == []


def test_a_rank_that_sends_to_itself_needs_another_stream_or_a_batch() -> None:
    (finding,) = ge.check_ranks(program([transfer(1, (False, 0, 4)), transfer(2, (True, 0, 4))]))
    assert (finding.kind, finding.ranks) == (Kind.CYCLE, (0,))
    assert ge.check_ranks(program([transfer(1, (False, 0, 4)), transfer(2, (True, 0, 4), stream=1)])) == []


def test_a_pipeline_of_stages_passes() -> None:
    """Two microbatches through three stages, forward and back again, each stage's gradients all-reduced at the end."""

    def stage(rank: int) -> list[ge.Node]:
        steps = []
        for to, source in ((1, -1), (-1, 1)):
            for _ in range(2):
                steps += [(True, rank + source, 4)] * (0 <= rank + source < 3)
                steps += [(False, rank + to, 4)] * (0 <= rank + to < 3)
        return [*(transfer(id, step) for id, step in enumerate(steps)), call(99, "w")]

    assert ge.check_ranks(program(*map(stage, range(3)))) == []


def test_members_are_compared_first() -> None:
    (finding,) = ge.check_ranks({0: graph_of(0, [call(1, "w")], {"w": (0, 1)})})
    assert finding.text == 'group "w" of ranks 0, 1: rank 1 has no graph; every member needs one'
    assert (finding.kind, finding.ranks) == (Kind.MEMBERS, (1,))
    wider = {0: graph_of(0, [call(1, "w")], {"w": (0, 1)}), 1: graph_of(1, [call(1, "w")], {"w": (0, 1, 2)})}
    assert any("ranks 0, 1 on rank 0, and of ranks 0, 1, 2 on rank 1" in str(one) for one in ge.check_ranks(wider))
    exchanged = {1: graph_of(0, [call(1, "w")], {"w": (0, 1)}), 0: graph_of(1, [call(1, "w")], {"w": (0, 1)})}
    assert "expected the graph of rank 0" in ge.check_ranks(exchanged)[0].text
    (finding,) = ge.check_ranks(program([call(1, "w")], [], w=(0, 1)))
    assert (finding.kind, finding.ranks) == (Kind.CALLS, (0, 1))


def test_groups_of_one_name_that_share_no_rank_are_different_ones() -> None:
    pairs = {
        rank: graph_of(rank, [call(1, "tp", count=rank // 2)], {"tp": pair})
        for pair in ((0, 1), (2, 3))
        for rank in pair
    }
    assert ge.check_ranks(pairs) == []


def test_a_graph_that_contradicts_itself_is_refused_before_all() -> None:
    (finding,) = ge.check_ranks(program([ge.Node(1, "w", 0, ge.Wait(3))], [call(1, "w")]))
    assert (finding.kind, finding.ranks) == (Kind.GRAPH, (0,))
    (finding,) = ge.check_ranks(program([call(1, "w", call="all_add")], []))
    assert "a collective 'all_add'; expected" in finding.text


def test_the_error_says_everything_and_a_cycle_has_a_code_of_its_own() -> None:
    with pytest.raises(HcclError) as refused:
        ge.refuse_ranks(program([call(1, "w")], [call(1, "w", count=5)], [call(1, "w")]))
    assert (refused.value.ranks, refused.value.ei) == ((1,), "EI0005")
    with pytest.raises(HcclError, match=r"E19999.*rank 0, rank 1") as refused:
        ge.refuse_ranks(program([call(1, "a"), call(2, "b")], [call(1, "b"), call(2, "a")], a=(0, 1), b=(0, 1)))
    assert refused.value.ranks == (0, 1)
