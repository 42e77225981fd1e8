"""What exploring every interleaving of the board shows: the protocol is clean, and each rule of it is needed.

A rule is shown to be needed by taking it away: the explorer then finds the fault named here.  To see the
shortest way into it:

    print(explore_board("P0 P1 P2", "P0 P1 P2", rules=Rules(slots=1)).report())
"""

import dataclasses
from typing import Any

import pytest

from .board_model import Rules, explore_board
from .board_model.explore import Actor, Exploration, Load, Program, Store, System
from .board_model.waiting import Way, explore_waiting
from .board_model.words import Bury, Return, Tear

pytestmark = pytest.mark.proof

# What may happen at most. The last two hold all that the others do, which show sooner what is wrong.
ANYTHING: list[Any] = [
    *(pytest.param(trouble, marks=pytest.mark.thorough) for trouble in ({"deaths": 1}, {"timeouts": True})),
    {},
    {"deaths": 2},
    {"deaths": 1, "timeouts": True},
]


def name_of(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in value.items()) or "no trouble"
    if isinstance(value, Rules):
        fields = dataclasses.asdict(value).items()
        return ", ".join(f"{key}: {item}" for key, item in fields if item != getattr(Rules(), key)) or "all rules"
    return " | ".join(value) if isinstance(value, tuple) else str(value)


def assert_clean(explored: Exploration) -> None:
    assert not explored.faults, explored.report()


def outcomes(explored: Exploration, ranks: int) -> set[tuple[tuple[str, ...], ...]]:
    """Every way the ranks' calls may end: per rank, what its calls returned."""
    return {
        tuple(tuple(outcome for _, outcome in end[f"outcomes of rank {rank}"]) for rank in range(ranks))
        for end in explored.ends
    }


# ---- the protocol as it is ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("calls", ["P0 P1 P2 P3 P4", "D0 D1 D2", "R0 R1", "P0 D1 P2 R3 B4"])
def test_agreeing_calls_all_succeed(size: int, calls: str) -> None:
    explored = explore_board(*[calls] * size)
    assert_clean(explored)
    assert outcomes(explored, size) == {(("ok",) * len(calls.split()),) * size}


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        (("P0' P1 P2 P3", "P0 P1 P2 P3", "P0 P1 P2 P3"), ("mismatch", "ok", "ok", "ok")),
        (("P0 P1 P2 P3", "P0' P1' P2 P3", "P0 P1 P2 P3"), ("mismatch", "mismatch", "ok", "ok")),
        (("P0' P1 P2 P3", "P0 P1 P2' P3", "P0 P1' P2 P3"), ("mismatch", "mismatch", "mismatch", "ok")),
        (("D0' D1", "D0 D1", "D0 D1"), ("mismatch", "ok")),
        (("D0 P1 D2", "P0 D1 D2", "D0 P1 D2"), ("mismatch", "mismatch", "ok")),
        (("P0' D1", "P0 D1"), ("mismatch", "ok")),
    ],
    ids=name_of,
)
def test_a_mismatch_fails_the_same_calls_on_all_ranks_which_then_work_on(
    scripts: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    explored = explore_board(*scripts)
    assert_clean(explored)
    assert outcomes(explored, len(scripts)) == {(expected,) * len(scripts)}


@pytest.mark.parametrize("trouble", ANYTHING, ids=name_of)
@pytest.mark.parametrize(
    "scripts",
    [
        ("P0 P1 P2", "P0 P1 P2"),
        ("D0 D1 R2", "D0 D1 R2"),
        ("P0 P1 P2", "P0 P1 P2", "P0 P1 P2"),
        ("P0 P1' P2 P3", "P0 P1 P2' P3", "P0 P1 P2 P3"),
        ("D0 P1 D2", "D0 P1 D2", "D0 P1 D2"),
        ("P0 D1", "D0 D1", "D0 D1"),
        ("D0' D1", "D0 D1", "D0 D1"),
        ("R0 D1", "R0 D1", "R0 D1"),
    ],
    ids=name_of,
)
def test_death_and_timeouts_at_any_point(scripts: tuple[str, ...], trouble: dict[str, Any]) -> None:
    assert_clean(explore_board(*scripts, **trouble))


@pytest.mark.thorough
@pytest.mark.parametrize(("script", "deaths"), [("P0 P1", 2), ("D0", 1)])
def test_four_ranks(script: str, deaths: int) -> None:
    """What holds for a third rank holds for a fourth: one dies, one is late, two disagree about it if they can."""
    assert_clean(explore_board(*[script] * 4, deaths=deaths))


@pytest.mark.parametrize("trouble", ANYTHING, ids=name_of)
@pytest.mark.parametrize("kinds", ["PP", "DD", "RP", "DP", "PD"])
def test_a_rank_that_leaves_fails_only_those_who_need_what_it_never_wrote(kinds: str, trouble: dict[str, Any]) -> None:
    first, second = kinds[0] + "0", kinds[1] + "1"
    explored = explore_board(f"{first} {second}", f"{first} {second}", first, **trouble)
    assert_clean(explored)
    if not trouble:
        assert outcomes(explored, 3) == {(("ok", "rank 2 left"), ("ok", "rank 2 left"), ("ok",))}


@pytest.mark.parametrize("calls", ["P0 P1 P2", "D0 D1", "R0 P1", "P0 D1 P2"])
def test_survivors_of_a_death_have_the_same_outcomes(calls: str) -> None:
    """A dead rank's line is there for all survivors or for none; a call with data is committed for all or for none."""
    explored = explore_board(calls, calls, calls, deaths=1)
    longest = 0
    for end in explored.ends:
        survivors = {end[f"outcomes of rank {rank}"] for rank in range(3) if end[f"state of rank {rank}"] != "dead"}
        assert len(survivors) == 1
        longest = max(longest, *(len(outcomes) for outcomes in survivors))
    assert longest == len(calls.split())


def test_all_lefts_done_is_success_even_when_the_abort_word_is_raised() -> None:
    """A rank that waits too long for a left ends the communicator; the call it was in may still have been completed."""
    ends = outcomes(explore_board("D0 D1", "D0 D1", timeouts=True), 2)
    assert (("ok", "ok"), ("ok", "ok")) in ends
    assert (("ok", "timeout of rank 0"),) * 2 in ends
    assert (("timeout of rank 0", "timeout of rank 0"),) * 2 in ends
    assert all((first[0] == "ok") == (second[0] == "ok") for first, second in ends)


def test_a_rank_that_is_stopped_for_ever_holds_its_peers_and_corrupts_nothing() -> None:
    """Why the launcher must end it: after a commit, neither time nor an abort word ends the wait for it."""
    explored = explore_board("D0", "D0", "D0", deaths=1, timeouts=True, rules=Rules(death_notice="never"))
    assert set(explored.faults) == {"hang"}, explored.report()


# ---- queued calls and numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("third", [(), ("P0 P1 P2 P3",)], ids=["2 ranks", "3 ranks"])
def test_after_skipped_calls_a_shift_is_a_mismatch_until_ranks_issue_the_same(third: tuple[str, ...]) -> None:
    """Rank 1 had queued two calls when call 0 failed: they fail with it, and its call 3 meets the others' call 1."""
    explored = explore_board("P0 P1 P2 P3", "P0' P1+ P2+ P3", *third)
    assert_clean(explored)
    ends = outcomes(explored, 2 + len(third))
    assert {end[1] for end in ends} == {("mismatch", "mismatch")}
    assert {end[0] for end in ends} == {("mismatch", "mismatch", "rank 1 left", "rank 1 left")}


def test_resync_sets_the_numbers_equal() -> None:
    explored = explore_board("P0 S9 P3 D4", "P0' P1+ P2+ S9 P3 D4", "P0 P1+ S9 P3 D4")
    assert_clean(explored)
    assert outcomes(explored, 3) == {(("mismatch", "ok", "ok", "ok"),) * 3}


def test_numbered_when_they_run_queued_calls_mix_their_data() -> None:
    rules = Rules(numbers="calls when run")
    explored = explore_board("P0 P1 P2 P3", "P0' P1+ P2+ P3", rules=rules, until=["wrong data"])
    assert "wrong data" in explored.faults, explored.report()
    assert "overrun" not in explored.faults and "wrong verdict" not in explored.faults  # silently


def test_numbered_at_issue_by_one_number_skipped_calls_hang_the_others() -> None:
    rules = Rules(numbers="calls at issue")
    explored = explore_board("P0 P1 P2 P3", "P0' P1+ P2+ P3", rules=rules)
    assert "hang" in explored.faults, explored.report()
    assert not explored.ends


# ---- each rule taken away -----------------------------------------------------------------------------------------

# A rank whose calls differ from the others' twice in a row: the third line of a slot meets readers of the first.
TWICE = ("P0 P1 P2", "P0' P1' P2", "P0 P1 P2")
ALWAYS = ("P0 P1 P2 P3", "P0' P1' P2' P3'", "P0 P1 P2 P3")

BROKEN: list[tuple[tuple[str, ...], Rules, dict[str, Any], tuple[str, ...]]] = [
    # rule 1: two slots, all lines before the verdict
    (("P0 P1 P2",) * 2, Rules(slots=1), {}, ("overrun", "torn payload", "hang")),
    (("P0 P1 P2",) * 3, Rules(slots=1), {}, ("overrun", "torn payload", "hang")),
    (ALWAYS, Rules(fails_after="the first difference"), {}, ("overrun", "torn payload", "hang")),
    (TWICE, Rules(fails_after="the first difference"), {}, ("overrun", "torn payload", "hang")),
    (
        ALWAYS,
        Rules(fails_after="the first difference", line_must_be="this round or later"),
        {},
        ("overrun", "torn payload", "wrong verdict"),
    ),
    (TWICE, Rules(fails_after="a grace period"), {}, ("overrun", "torn payload", "hang")),
    (("P0",) * 2, Rules(publishes="word, fields"), {}, ("torn payload",)),
    # rule 2: whoever leaves a round otherwise ends the communicator
    (
        ("P0 P1 P2",) * 2,
        Rules(after_timeout="goes on calling"),
        {"timeouts": True},
        ("overrun", "torn payload", "outcomes differ"),
    ),
    (("P0 P1",) * 3, Rules(starts_unless="the abort word is raised"), {"deaths": 1}, ("hang",)),
    # rule 3: commit, and quiesce after it
    (("D0",) * 2, Rules(commits_by="nothing"), {"timeouts": True}, ("store after raise",)),
    (("D0",) * 2, Rules(commits_by="a look at the abort word"), {"timeouts": True}, ("store after raise",)),
    (("D0",) * 2, Rules(commits_by="its own decision"), {"timeouts": True}, ("store after raise",)),
    (("R0",) * 2, Rules(after_commit="raise at once"), {"timeouts": True}, ("store after raise", "outcomes differ")),
    (("D0",) * 3, Rules(after_commit="raise at once"), {"deaths": 1}, ("store after raise", "outcomes differ")),
    (("D0",) * 2, Rules(after_commit="quiesce until a timeout"), {"timeouts": True}, ("store after raise",)),
    (("D0",) * 2, Rules(leaves="before the last store"), {}, ("store after raise", "wrong data")),
    (("D0",) * 3, Rules(leaves="before the last store"), {}, ("store after raise", "wrong data")),
    (("R0",) * 2, Rules(cuts_short="left, abort word"), {"timeouts": True}, ("failure without a cause",)),
    (("D0",) * 2, Rules(death_notice="early"), {}, ("store after raise", "outcomes differ")),
    # rule 4: what is waited for, the alarms, what is waited for
    (
        ("P0 P1",) * 2,
        Rules(looks_at="alarms, word", exit_raises_abort=True),
        {},
        ("spurious failure", "outcomes differ"),
    ),
    (("P0 P1",) * 3, Rules(looks_at="alarms, word"), {}, ("spurious failure", "outcomes differ")),
    (("P0 P1",) * 2, Rules(looks_at="word, alarms"), {}, ("spurious failure", "outcomes differ")),
    (("P0 P1",) * 3, Rules(looks_at="word, alarms"), {"deaths": 1}, ("outcomes differ",)),
    (("P0 P1",) * 3, Rules(death_fails="every wait"), {"deaths": 1}, ("outcomes differ",)),
    # rule 7: only what all ranks take part in
    (("P0 X1 P2 P3", "P0 X1 P2 P3", "P0 P2 P3"), Rules(), {}, ("overrun", "torn payload", "hang")),
    (("P0 B1 P2 B3",) * 2, Rules(root_hears="nobody"), {}, ("overrun", "torn payload", "hang")),
    (("P0 B1 P2 B3",) * 3, Rules(root_hears="nobody"), {}, ("overrun", "torn payload", "hang")),
]


@pytest.mark.parametrize(("scripts", "rules", "trouble", "faults"), BROKEN, ids=name_of)
def test_without_the_rule_the_fault_is_found(
    scripts: tuple[str, ...], rules: Rules, trouble: dict[str, Any], faults: tuple[str, ...]
) -> None:
    explored = explore_board(*scripts, rules=rules, until=faults, **trouble)
    assert set(faults) <= explored.faults.keys(), explored.report()


@pytest.mark.parametrize("scripts", [ALWAYS, TWICE], ids=name_of)
def test_with_the_rule_the_same_calls_are_clean(scripts: tuple[str, ...]) -> None:
    assert_clean(explore_board(*scripts))


def test_a_clean_exit_through_the_abort_word_is_harmless_when_the_line_is_looked_at_first() -> None:
    for size in (2, 3):
        assert_clean(explore_board(*["P0 D1 P2"] * size, rules=Rules(exit_raises_abort=True)))


# ---- falling asleep -----------------------------------------------------------------------------------------------

WAITS: list[tuple[tuple[int, ...], ...]] = [((1,),), ((1, 2),), ((1,), (1,)), ((1, 2), (2,)), ((1, 2), (1, 2))]


@pytest.mark.parametrize("waits", WAITS, ids=str)
@pytest.mark.parametrize("way", ["bit, exchange", "bit, compare-and-swap", "flag, fences"])
def test_no_wake_up_is_lost(way: Way, waits: tuple[tuple[int, ...], ...]) -> None:
    assert_clean(explore_waiting(way, waits, posts=max(max(numbers) for numbers in waits)))


@pytest.mark.parametrize("waits", WAITS, ids=str)
def test_a_flag_beside_the_word_loses_a_wake_up(waits: tuple[tuple[int, ...], ...]) -> None:
    explored = explore_waiting("flag", waits, posts=max(max(numbers) for numbers in waits))
    assert "hang" in explored.faults, explored.report()


# ---- the explorer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scripts", "trouble"),
    [
        (("P0' P1 D2", "P0 P1 D2"), {"deaths": 1, "timeouts": True}),
        (("P0 P1", "P0 P1", "P0 P1"), {"deaths": 1}),
        (("D0", "D0", "D0"), {"deaths": 1}),
        (("R0 P1", "R0 P1"), {"timeouts": True}),
        (("P0 S9 P3", "P0' P1+ P2+ S9 P3"), {"timeouts": True}),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("rules", [Rules(), Rules(slots=1), Rules(death_fails="every wait")], ids=name_of)
def test_programs_keep_the_rules(scripts: tuple[str, ...], trouble: dict[str, Any], rules: Rules) -> None:
    """Telling places apart by the programs' frames finds what telling them apart by all they observed does."""
    quick = explore_board(*scripts, rules=rules, **trouble)
    slow = explore_board(*scripts, rules=rules, by_history=True, **trouble)
    assert quick.faults.keys() == slow.faults.keys()
    assert all(end in slow.ends for end in quick.ends) and all(end in quick.ends for end in slow.ends)
    assert {kind: len(trace) for kind, trace in quick.faults.items()} == {
        kind: len(trace) for kind, trace in slow.faults.items()
    }


@pytest.mark.parametrize(
    ("scripts", "rules", "trouble"),
    [
        (("P0 P1 P2",) * 3, Rules(), {"deaths": 1}),
        (("D0 P1",) * 2, Rules(), {"deaths": 1, "timeouts": True}),
        (("D0",) * 3, Rules(), {}),
        (("P0 P1 P2",) * 2, Rules(slots=1), {}),
        (("D0",) * 2, Rules(commits_by="nothing"), {"timeouts": True}),
        (("R0",) * 2, Rules(after_commit="raise at once"), {"timeouts": True}),
    ],
    ids=name_of,
)
def test_instant_steps_hide_nothing(
    scripts: tuple[str, ...], rules: Rules, trouble: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that are explored at once and alone, explored like all others, show the same faults."""
    at_once = explore_board(*scripts, rules=rules, **trouble)
    for operation in (Tear, Return, Bury):
        monkeypatch.setattr(operation, "instant", False)
    at_any_time = explore_board(*scripts, rules=rules, **trouble)
    assert at_any_time.states > at_once.states
    assert at_any_time.faults.keys() == at_once.faults.keys(), at_any_time.report()


def test_the_explorer_finds_every_end_of_a_race() -> None:
    """Two programs add one to a cell, by a load and a store: the sum is 2, or 1 when an update was lost."""

    def add_one() -> Program:
        seen = yield Load("sum")
        yield Store("sum", seen + 1)

    explored = System([Actor("a", add_one), Actor("b", add_one)], {"sum": 0}).explore()
    assert sorted(end["sum"] for end in explored.ends) == [1, 2]
    assert explored.faults == {}
