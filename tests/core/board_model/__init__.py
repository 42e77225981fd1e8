"""The board as an explicit-state model: two or three ranks, every interleaving.

What is modelled.  Ranks make calls on one communicator, each as its script says; the steps of a call are those of
ascend_rt/core/board.c (protocol.py), on the shared words of layout.h (words.py).  Any rank may die between any two
steps, the server of the job then says so; any wait may time out; ranks leave when their script ends.  explore.py runs
through all orders of all steps.  How a rank falls asleep and is woken is a model of its own (waiting.py).

What is a fault:

* overrun: a rank waits for a line of a round, and the line is of a later one already;
* torn payload: a rank finds its round and reads fields that are being rewritten;
* hang: a rank waits, and no step of anybody is possible;
* wrong verdict: one rank finished a round well, another found a mismatch in it;
* outcomes differ: one rank finished a round well, another gave it up;
* two first causes: two ranks gave up and do not name the same cause; failure without a cause: none to name;
* wrong data: a call ended well with another call's data, or without all of its own;
* store after raise: a rank stores into buffers which their owner got back;
* spurious failure: nobody died or was late, all ranks make the call, and one fails it other than by a mismatch.

What ranks may differ in.  In a call that touches data nothing but the kind of failure: one rank may have seen a
mismatch in a round that another gave up.  In a round of payload the same, and with a timeout one rank may have
finished a round which another gave up; with deaths all survivors finish it or all give it up.

What is one step.  A published word is a release of all stored before it, so a line's fields and its word are
one step, after a first one in which the fields are torn.  A reader that finds its round reads the fields in the
same step: a writer that may begin between the two may also begin before both, and that is tried.  A waiter's loop
(the word, the alarms, the word once more) is one step, not possible until the loop would end: alarms stay
and words only grow, so what three looks find is what is there at the last.  Steps follow one another as they would on
one processor; that a word's release and acquire order what stands behind it is ThreadSanitizer's to check, and the one
place where stores and loads of two different words meet, sleeping, is modelled with store buffers.
"""

from collections.abc import Sequence

from .explore import Actor, Exploration, System, Value
from .protocol import Call, Rank, Rules, script
from .words import FREE, MISMATCH, NOTHING, OK, OPEN, RUNNING

__all__ = ["Rules", "explore_board"]


def explore_board(
    *scripts: str,
    rules: Rules | None = None,
    deaths: int = 0,
    timeouts: bool = False,
    until: Sequence[str] = (),
    by_history: bool = False,
) -> Exploration:
    """Explores ranks that make the calls of `scripts`, one script per rank.

    deaths: how many ranks may die.  timeouts: whether any wait may time out.  until: stop when these faults are found.
    """
    rules = rules or Rules()
    calls = [script(text) for text in scripts]
    troubled = deaths > 0 or timeouts or rules.death_notice == "early"
    ranks = [
        Rank(
            rank,
            len(calls),
            calls[rank],
            rules,
            timeouts,
            calls_that_succeed=0 if troubled else common_calls(calls),
            tolerated=tolerated(calls, deaths, timeouts, rules, touches=False),
            tolerated_with_data=tolerated(calls, deaths, timeouts, rules, touches=True),
        )
        for rank in range(len(calls))
    ]
    actors = [Actor(f"rank {rank.rank}", rank.program, rank.obituary) for rank in ranks]
    if rules.death_notice == "early":
        actors.append(Actor("server", ranks[-1].notice_of_death))
    return System(actors, first_values(rules.slots, len(ranks)), deaths, by_history).explore(until)


def common_calls(calls: Sequence[Sequence[Call]]) -> int:
    """How many calls, from the first, all ranks make together."""
    count = 0
    for same in zip(*calls, strict=False):
        if len({call.name for call in same}) > 1 or any(call.queued for call in same):
            break
        count += 1
    return count


def tolerated(
    calls: Sequence[Sequence[Call]], deaths: int, timeouts: bool, rules: Rules, touches: bool
) -> frozenset[frozenset[str]]:
    """What ranks may differ in, in one round (see above)."""
    if rules.after_timeout == "goes on calling":
        return frozenset()
    pairs = set()
    if timeouts or (deaths and any(call.touches for rank in calls for call in rank)):
        pairs.add(frozenset({MISMATCH, "CAUSE"}))
    if timeouts and not touches:
        pairs.add(frozenset({OK, "CAUSE"}))
    return frozenset(pairs)


def first_values(slots: int, ranks: int) -> dict[str, Value]:
    cells: dict[str, Value] = {"abort": None, "decision": (0, OPEN)}
    for rank in range(ranks):
        for slot in range(slots):
            cells[f"line[{slot}] of rank {rank}"] = (-1, NOTHING)
        cells[f"left of rank {rank}"] = (0, NOTHING)
        cells[f"posted by rank {rank}"] = (0, NOTHING)
        cells[f"state of rank {rank}"] = RUNNING
        cells[f"buffers of rank {rank}"] = FREE
        cells[f"outcomes of rank {rank}"] = ()
    return cells
