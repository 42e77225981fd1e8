"""Words for statements that differ: which points are named, which ranks are marked, what to do."""

import dataclasses

import pytest

from ascend_rt.diag.disagreement import Statement, describe, describe_transfer, describe_uneven, differing_points

pytestmark = pytest.mark.proof

AGREED = Statement(0, 17, "all_reduce", 1024, "float32", "sum", None, 5, where="train.py:41")


def statements(size: int, **odd: object) -> list[Statement]:
    """Those of `size` ranks; the last one says `odd` instead."""
    said = [dataclasses.replace(AGREED, rank=rank) for rank in range(size)]
    return [*said[:-1], dataclasses.replace(said[-1], **odd)]  # type: ignore[arg-type]


def test_equal_statements_differ_in_nothing() -> None:
    assert differing_points(statements(3)) == []


def test_the_table_of_a_count() -> None:
    assert describe(statements(3, count=1000), 1, "world") == (
        'all_reduce #17 of group "world": the ranks do not agree on count\n'
        "  rank 0 (train.py:41)  all_reduce count=1024 dtype=float32 op=sum\n"
        "  rank 1 (train.py:41)  all_reduce count=1024 dtype=float32 op=sum     <- this rank\n"
        "  rank 2 (train.py:41)  all_reduce count=1000 dtype=float32 op=sum  !\n"
        "Every rank must pass the same count. Often the last, shorter batch: pad it or drop it on all ranks."
    )


def test_another_collective_is_the_only_point_that_is_named() -> None:
    text = describe(statements(2, collective="broadcast", op=None, root=1, count=3, fingerprint=9), 0, "world")
    assert text.splitlines()[0] == (
        'all_reduce #17 / broadcast #17 of group "world": the ranks do not agree on collective'
    )
    assert "broadcast count=3 dtype=float32 root=1" in text
    assert "!" not in text  # of two ranks neither is the odd one


def test_another_algorithm_is_named_only_where_nothing_else_differs() -> None:
    assert "agree on algorithm" in describe(statements(2, fingerprint=9), 0, "world").splitlines()[0]
    assert describe(statements(2, fingerprint=9, count=3), 0, "world").splitlines()[0].endswith("agree on count")


def test_another_number_of_calls() -> None:
    head, *_, advice = describe(statements(2, call=16), 0, "world").splitlines()
    assert head == 'all_reduce #16 / all_reduce #17 of group "world": the ranks do not agree on the number of calls'
    assert "skipped or added a call" in advice


def test_refusals_are_told_before_anything_else() -> None:
    text = describe(statements(3, refusal="root=9; expected a rank, 0 to 2", count=0), 0, "world")
    assert text == (
        'all_reduce #17 of group "world": refused on rank 2; nothing was moved on any rank\n'
        "  rank 0 (train.py:41)  all_reduce count=1024 dtype=float32 op=sum\n"
        "  rank 1 (train.py:41)  all_reduce count=1024 dtype=float32 op=sum\n"
        "  rank 2 (train.py:41)  root=9; expected a rank, 0 to 2"
    )


def test_ranks_of_a_communicator_of_some_are_named_as_the_jobs_too() -> None:
    members, said = (4, 0, 7), statements(3, refusal="x is a list", count=0)
    assert describe(statements(3, count=9), 1, "row", members).splitlines()[1:4] == [
        "  rank 0 (rank 4 of the job) (train.py:41)  all_reduce count=1024 dtype=float32 op=sum",
        "  rank 1 (rank 0 of the job) (train.py:41)  all_reduce count=1024 dtype=float32 op=sum     <- this rank",
        "  rank 2 (rank 7 of the job) (train.py:41)  all_reduce count=9 dtype=float32 op=sum  !",
    ]
    assert "refused on rank 2 (rank 7 of the job);" in describe(said, 0, "row", members)
    uneven = describe_uneven(statements(3), 0, "row", (2, 0, 5, 6), members)
    assert ": rank 2 (rank 7 of the job) sends 5 elements to rank 0 (rank 4 of the job), which expects 6\n" in uneven
    sides = (dataclasses.replace(AGREED, rank=rank, collective=kind, root=1 - rank, count=3 + rank)
             for rank, kind in enumerate(("send", "recv")))
    message = describe_transfer(*sides, 0, "row", members).splitlines()
    assert message[1] == (
        "  rank 0 (rank 4 of the job) (train.py:41)  send count=3 dtype=float32 to rank 1     <- this rank"
    )
    assert message[2].startswith("  rank 1 (rank 0 of the job) (train.py:41)  recv count=4")
