"""What exploring every interleaving of two ranks that send and receive shows: it is clean, and each rule is needed.

print(explore_channels("s1 s2", "r1 r2", rules=Rules(posts="bell, word")).report())
"""

from typing import Any

import pytest

from .board_model.explore import Exploration
from .channel_model import GIVEN_UP, MISMATCH, OK, Rules, explore_channels

pytestmark = pytest.mark.proof

TROUBLE: list[dict[str, Any]] = [{}, {"deaths": 1, "timeouts": True}]


def assert_clean(explored: Exploration) -> None:
    assert not explored.faults, explored.report()


def outcomes(explored: Exploration) -> set[tuple[tuple[str, ...], ...]]:
    return {
        tuple(tuple(how for _, how in end[f"outcomes of rank {rank}"]) for rank in range(2)) for end in explored.ends
    }


@pytest.mark.parametrize("trouble", TROUBLE, ids=str)
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("s1 s2", "r1 r2", OK),
        ("p1 s2", "r1 r2", OK),
        ("s1 r2", "r1 s2", OK),
        ("s1+r2", "s2+r1", OK),
        ("s1+r2", "r1 s2", OK),
        ("p1+r2", "r1+s2", OK),
        ("s1' s2", "r1 r2", MISMATCH),
        ("p1' p2", "r1 r2", MISMATCH),
        ("s1 s2", "r1 r2'", OK),
        ("s1'+r2", "s2+r1", MISMATCH),
    ],
)
def test_every_message_ends_alike_on_both_sides(
    first: str, second: str, expected: str, trouble: dict[str, Any]
) -> None:
    explored = explore_channels(first, second, **trouble)
    assert_clean(explored)
    if not trouble:
        assert {ends[0][0] for ends in outcomes(explored)} <= {expected, OK}
        assert all(GIVEN_UP not in ends[0] + ends[1] for ends in outcomes(explored))


def test_a_rank_that_leaves_fails_only_who_waits_for_what_it_never_sent() -> None:
    explored = explore_channels("s1", "r1 r2")
    assert_clean(explored)
    assert outcomes(explored) == {((OK,), (OK, GIVEN_UP))}


def test_a_timeout_may_come_after_all_is_settled() -> None:
    ends = outcomes(explore_channels("s1", "r1", timeouts=True))
    assert ((OK,), (OK,)) in ends and ((GIVEN_UP,), (GIVEN_UP,)) in ends
    assert all((first == (OK,)) == (second == (OK,)) for first, second in ends)


@pytest.mark.parametrize(
    ("first", "second", "rules", "trouble", "faults"),
    [
        ("s1", "r1", Rules(posts="bell, word"), {}, ("hang",)),
        ("s1", "r1", Rules(looks="words, bell"), {}, ("hang",)),
        ("s1 s2", "r1 r2", Rules(publishes="word, fields"), {}, ("torn",)),
        ("s1 s2", "r1 r2", Rules(settles="before reading"), {}, ("wrong data",)),
        ("s1", "r1", Rules(withdraws="by itself"), {"timeouts": True}, ("outcomes differ", "wrong data")),
        ("s1", "r1", Rules(gives_up="settled word, abort word"), {"timeouts": True}, ("failure without a cause",)),
        ("s1' s2", "r1 r2", Rules(tells="beside the next offer"), {}, ("torn",)),
        ("p1 p2", "r1 r2", Rules(counts_pieces="for ever"), {}, ("wrong data",)),
    ],
    ids=str,
)
def test_without_the_rule_the_fault_is_found(
    first: str, second: str, rules: Rules, trouble: dict[str, Any], faults: tuple[str, ...]
) -> None:
    explored = explore_channels(first, second, rules=rules, until=faults, **trouble)
    assert set(faults) <= explored.faults.keys(), explored.report()


def test_a_last_look_is_not_needed_for_the_two_to_agree() -> None:
    """It only spares a rank the failure of a message that has come by the time it gives up."""
    assert_clean(explore_channels("s1 r2", "r1 s2", rules=Rules(before_giving_up="does not look"), timeouts=True))
