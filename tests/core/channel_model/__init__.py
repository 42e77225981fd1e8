"""One pair of ranks and the two channels between them as an explicit-state model: every interleaving.

What is modelled.  Each rank makes transfers as its script says, by the steps of ascend_rt/core/channel.c and
transfer.c, on the words of layout.h.  A rank may die between any two steps, the server of the job then says so; any
wait may time out; ranks leave when their script ends.  How a rank sleeps on its bell is one step, not possible until
the bell is another than it was or an alarm is raised: so a bell that is rung before its word, or looked at after it, is
found as a hang.

A script is a list of transfers: "s1" sends message 1 directly, "p1" in pieces, "r1" receives it, "s1+r2" is a batch;
' : with another count than the other side has.

What is a fault:

* torn: the receiver finds its round and reads fields that are being rewritten, or text that is;
* wrong data: a transfer ended well, and what was received is not what was sent;
* outcomes differ: one side of a message counts it as done, the other does not;
* wrong verdict: one side found that they disagree, the other that all went well;
* failure without a cause: a rank gave up and there is no abort word;
* spurious failure: nobody died or was late, both sides make the transfer, and it was given up;
* hang.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from ..board_model.explore import (
    Actor,
    CompareAndSwap,
    Exploration,
    Fault,
    Load,
    Operation,
    Program,
    Store,
    System,
    Value,
)

Steps: TypeAlias = Generator[Any, Any, Any]
Outcomes: TypeAlias = Iterable[tuple[Value, tuple[Value, ...]]]

PIECES_OF_A_MESSAGE, PIECES = 3, 2
RUNNING, LEFT, DEAD = "running", "left", "dead"
TAKEN, DIFFERS, WITHDRAWN = "TAKEN", "DIFFERS", "WITHDRAWN"
OK, MISMATCH, GIVEN_UP = "ok", "mismatch", "given up"
TORN, REUSED = "torn", "reused"


@dataclass(frozen=True)
class Rules:
    """The protocol as it is: the first of each list.  A broken one has another."""

    posts: Literal["word, bell", "bell, word"] = "word, bell"
    looks: Literal["bell, words", "words, bell"] = "bell, words"
    publishes: Literal["fields, word", "word, fields"] = "fields, word"
    settles: Literal["after reading", "before reading"] = "after reading"
    withdraws: Literal["by the settled word", "by itself"] = "by the settled word"
    gives_up: Literal["abort word, settled word", "settled word, abort word"] = "abort word, settled word"
    before_giving_up: Literal["looks once more", "does not look"] = "looks once more"
    tells: Literal["in a round", "beside the next offer"] = "in a round"
    counts_pieces: Literal["by round", "for ever"] = "by round"


class Item(NamedTuple):
    kind: str  # s, p: sends; r: receives
    name: str
    odd: bool
    state: str = "queued"
    round: int = 0
    pieces: int = 0
    outcome: str = ""


def script(text: str) -> tuple[tuple[Item, ...], ...]:
    return tuple(tuple(Item(i[0], i[1:].rstrip("'"), "'" in i) for i in word.split("+")) for word in text.split())


@dataclass(frozen=True)
class Sleep(Operation):
    """Sleeps until the bell is another than `seen`, or an alarm is raised.  Observes the alarm, or None."""

    bell: str
    seen: int
    alarms: tuple[str, ...]
    may_time_out: bool
    writes = False

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.bell, *self.alarms)

    def outcomes(self, bell: Any, *alarms: Any) -> Outcomes:
        raised = [alarm for alarm in alarms if alarm not in (None, RUNNING)]
        if bell != self.seen:
            yield None, (bell, *alarms)
        elif raised:
            yield raised[0], (bell, *alarms)
        elif self.may_time_out:
            yield "timeout", (bell, *alarms)


@dataclass(frozen=True)
class Ring(Operation):
    bell: str

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.bell,)

    def outcomes(self, bell: Any) -> Outcomes:
        yield None, (bell + 1,)


@dataclass(frozen=True)
class Settle(Operation):
    """Compare-and-swap from open; observes the settlement that holds."""

    word: str
    round: int
    settlement: str

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.word,)

    def outcomes(self, word: Any) -> Outcomes:
        if word[0] == self.round:
            yield word[1], (word,)
        else:
            yield self.settlement, ((self.round, self.settlement),)


@dataclass(frozen=True)
class Return(Operation):
    """A transfer is over: observes what is wrong with its outcome; a sender's buffer is used for something else.

    Instant: a buffer that is used again sooner shows every read that comes too late, and more."""

    own: str
    theirs: str
    buffer: str | None
    item: Item
    may_fail: bool
    troubled: bool
    instant = True

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.own, self.theirs, *([self.buffer] if self.buffer else []))

    def outcomes(self, own: Any, theirs: Any, *buffer: Any) -> Outcomes:
        other = dict(theirs).get(self.item.name, self.item.outcome)
        kinds = {other, self.item.outcome}
        wrong = ""
        if kinds == {OK, MISMATCH}:
            wrong = "wrong verdict"
        elif OK in kinds and len(kinds) > 1:
            wrong = "outcomes differ"
        elif self.item.outcome == GIVEN_UP and not self.may_fail and not self.troubled:
            wrong = "spurious failure"
        yield wrong, ((*own, (self.item.name, self.item.outcome)), theirs, *(REUSED for _ in buffer))


@dataclass(frozen=True)
class Rank:
    rank: int
    transfers: tuple[tuple[Item, ...], ...]
    common: frozenset[str]  # messages that both ranks make
    rules: Rules
    troubled: bool
    timeouts: bool

    # ---- names of cells: a channel is named by its sender ----

    def channel(self, item: Item) -> str:
        return f"of rank {self.rank if item.kind != 'r' else 1 - self.rank}"

    # ---- the program ----

    def program(self) -> Program:
        rounds = (0, 0)  # of the channel that this rank sends on, and of the one it receives on
        for number in range(len(self.transfers)):
            rounds = yield from self.transfer(self.transfers[number], rounds)
        yield Store(f"state of rank {self.rank}", LEFT)

    def obituary(self) -> Program:
        yield Store(f"state of rank {self.rank}", DEAD)
        yield CompareAndSwap("abort", None, f"death of rank {self.rank}")

    def transfer(self, items: tuple[Item, ...], rounds: tuple[int, int]) -> Steps:
        bell = f"bell of rank {self.rank}"
        given_up = yield Load("abort")
        given_up = given_up is not None
        rung = 0
        while True:
            if self.rules.looks == "bell, words":
                rung = yield Load(bell)
            before = items
            items, rounds, given_up = yield from self.advance_all(items, rounds, given_up)
            if all(item.state == "over" for item in items):
                return rounds
            if items != before:
                continue
            before = ()
            if self.rules.looks == "words, bell":
                rung = yield Load(bell)
            alarms = ("abort", f"state of rank {1 - self.rank}")
            alarm = yield Sleep(bell, rung, alarms, self.timeouts)
            if alarm is None:
                continue
            if self.rules.before_giving_up == "looks once more":
                before = items
                items, rounds, given_up = yield from self.advance_all(items, rounds, given_up)
                if items != before:
                    continue
                before = ()
            if self.rules.gives_up == "abort word, settled word":
                yield CompareAndSwap("abort", None, f"{alarm} of rank {self.rank}")
            given_up = True
            alarm = None

    def advance_all(self, items: tuple[Item, ...], rounds: tuple[int, int], given_up: bool) -> Steps:
        for index in range(len(items)):
            item = items[index]
            if item.state == "over":
                continue
            item, rounds, given_up = yield from self.advance(item, rounds, given_up)
            if given_up and item.state != "over":
                item = yield from self.abandon(item)
            if item.state == "over":
                yield from self.returns(item)
            items = (*items[:index], item, *items[index + 1 :])
        return items, rounds, given_up

    def advance(self, item: Item, rounds: tuple[int, int], given_up: bool) -> Steps:
        if item.state == "queued":
            if given_up:
                return item._replace(state="over", outcome=GIVEN_UP), rounds, given_up
            item, rounds = next_round(item, rounds)
            if item.kind == "r":
                return item._replace(state="awaiting"), rounds, given_up
            yield Store(f"buffer {self.channel(item)}", item.name)
            item = yield from self.offer(item, (item.name, item.odd, item.kind, "message"))
            return item._replace(state="offered"), rounds, given_up
        if item.kind == "r":
            return (yield from self.receiver_goes_on(item, rounds, given_up))
        item, rounds = yield from self.sender_goes_on(item, rounds)
        return item, rounds, given_up

    def post(self, word: str, value: Value, bell: int) -> Steps:
        if self.rules.posts == "bell, word":
            yield Ring(f"bell of rank {bell}")
        yield Store(word, value)
        if self.rules.posts == "word, bell":
            yield Ring(f"bell of rank {bell}")

    # ---- the sender ----

    def offer(self, item: Item, fields: Value) -> Steps:
        name = self.channel(item)
        if self.rules.publishes == "fields, word":
            yield Store(f"offer fields {name}", TORN)
            yield Store(f"offer fields {name}", fields)
        if item.kind == "p" and fields[3] == "message":  # type: ignore[index]
            item = yield from self.fill(item)
        yield from self.post(f"offer {name}", item.round, 1 - self.rank)
        if self.rules.publishes == "word, fields":
            yield Store(f"offer fields {name}", fields)
        return item

    def fill(self, item: Item) -> Steps:
        name = self.channel(item)
        while item.pieces < PIECES_OF_A_MESSAGE:
            drained = yield Load(f"drained {name}")
            drained = drained[1] if drained[0] == item.round or self.rules.counts_pieces == "for ever" else 0
            if item.pieces - drained >= PIECES:
                break
            yield Store(f"piece {item.pieces % PIECES} {name}", (item.name, item.pieces))
            item = item._replace(pieces=item.pieces + 1)
            yield Store(f"filled {name}", (item.round, item.pieces))
        return item

    def sender_goes_on(self, item: Item, rounds: tuple[int, int]) -> Steps:
        name = self.channel(item)
        settled = yield Load(f"settled {name}")
        if settled[0] != item.round:
            before = item.pieces
            if item.kind == "p" and item.state == "offered":
                item = yield from self.fill(item)
            if item.pieces != before:
                yield Ring(f"bell of rank {1 - self.rank}")
            return item, rounds
        if item.state == "telling":
            return item._replace(state="over", outcome=MISMATCH), rounds
        if settled[1] == TAKEN:
            return item._replace(state="over", outcome=OK), rounds
        text = yield Load(f"answer fields {name}")
        if text != item.name:
            yield Fault("torn")
        if self.rules.tells == "beside the next offer":
            yield Store(f"offer fields {name}", (item.name, item.odd, item.kind, "where"))
            return item._replace(state="over", outcome=MISMATCH), rounds
        item, rounds = next_round(item, rounds)
        item = yield from self.offer(item, (item.name, item.odd, item.kind, "where"))
        return item._replace(state="telling"), rounds

    # ---- the receiver ----

    def receiver_goes_on(self, item: Item, rounds: tuple[int, int], given_up: bool) -> Steps:
        name = self.channel(item)
        if item.state == "draining":
            return (yield from self.drain(item, rounds, given_up))
        offer = yield Load(f"offer {name}")
        if offer < item.round:
            return item, rounds, given_up
        fields = yield Load(f"offer fields {name}")
        if fields == TORN or offer > item.round:
            yield Fault("torn")
            return item._replace(state="over", outcome=GIVEN_UP), rounds, True
        if item.state == "listening":
            if fields != (item.name, fields[1], fields[2], "where"):
                yield Fault("torn")
            yield Settle(f"settled {name}", item.round, TAKEN)
            yield Ring(f"bell of rank {1 - self.rank}")
            return item._replace(state="over", outcome=MISMATCH), rounds, given_up
        if fields[1] or item.odd:
            return (yield from self.disagree(item, rounds, given_up))
        if fields[2] == "p":
            return item._replace(state="draining"), rounds, given_up
        if self.rules.settles == "before reading":
            return (yield from self.take(item, rounds, given_up, None))
        data = yield Load(f"buffer {name}")
        return (yield from self.take(item, rounds, given_up, data))

    def take(self, item: Item, rounds: tuple[int, int], given_up: bool, data: Value) -> Steps:
        name = self.channel(item)
        settlement = yield Settle(f"settled {name}", item.round, TAKEN)
        if settlement != TAKEN:
            cause = yield Load("abort")
            if cause is None:
                yield Fault("failure without a cause")
            return item._replace(state="over", outcome=GIVEN_UP), rounds, True
        if data is None:
            yield Ring(f"bell of rank {1 - self.rank}")
            data = yield Load(f"buffer {name}")
        if data != item.name:
            yield Fault("wrong data")
        yield Ring(f"bell of rank {1 - self.rank}")
        return item._replace(state="over", outcome=OK), rounds, given_up

    def disagree(self, item: Item, rounds: tuple[int, int], given_up: bool) -> Steps:
        name = self.channel(item)
        yield Store(f"answer fields {name}", TORN)
        yield Store(f"answer fields {name}", item.name)
        settlement = yield Settle(f"settled {name}", item.round, DIFFERS)
        if settlement != DIFFERS:
            return item._replace(state="over", outcome=GIVEN_UP), rounds, True
        if self.rules.tells == "in a round":
            item, rounds = next_round(item, rounds)
        yield Ring(f"bell of rank {1 - self.rank}")
        return item._replace(state="listening"), rounds, given_up

    def drain(self, item: Item, rounds: tuple[int, int], given_up: bool) -> Steps:
        name = self.channel(item)
        filled = yield Load(f"filled {name}")
        filled = filled[1] if filled[0] == item.round or self.rules.counts_pieces == "for ever" else 0
        if filled <= item.pieces:
            return item, rounds, given_up
        while item.pieces < filled:
            data = yield Load(f"piece {item.pieces % PIECES} {name}")
            if data != (item.name, item.pieces):
                yield Fault("wrong data")
            item = item._replace(pieces=item.pieces + 1)
        data = None
        yield Store(f"drained {name}", (item.round, item.pieces))
        if item.pieces == PIECES_OF_A_MESSAGE:
            return (yield from self.take(item, rounds, given_up, item.name))
        yield Ring(f"bell of rank {1 - self.rank}")
        return item, rounds, given_up

    # ---- ends ----

    def abandon(self, item: Item) -> Steps:
        outcome = GIVEN_UP
        if item.state in ("telling", "listening"):
            outcome = MISMATCH
        elif item.state == "offered" and self.rules.withdraws == "by the settled word":
            settlement = yield Settle(f"settled {self.channel(item)}", item.round, WITHDRAWN)
            outcome = OK if settlement == TAKEN else GIVEN_UP
        if self.rules.gives_up == "settled word, abort word":
            yield CompareAndSwap("abort", None, f"alarm of rank {self.rank}")
        return item._replace(state="over", outcome=outcome)

    def returns(self, item: Item) -> Steps:
        buffer = f"buffer {self.channel(item)}" if item.kind != "r" else None
        outcomes = f"outcomes of rank {self.rank}", f"outcomes of rank {1 - self.rank}"
        wrong = yield Return(*outcomes, buffer, item, item.name not in self.common, self.troubled)
        if wrong:
            yield Fault(wrong)


def next_round(item: Item, rounds: tuple[int, int]) -> tuple[Item, tuple[int, int]]:
    sent, received = rounds
    if item.kind == "r":
        return item._replace(round=received + 1), (sent, received + 1)
    return item._replace(round=sent + 1), (sent + 1, received)


def explore_channels(
    first: str,
    second: str,
    rules: Rules | None = None,
    deaths: int = 0,
    timeouts: bool = False,
    until: Sequence[str] = (),
) -> Exploration:
    """Explores two ranks that make the transfers of their scripts.

    deaths: how many ranks may die.  timeouts: whether any wait may time out.  until: stop when these faults are found.
    """
    rules = rules or Rules()
    scripts = script(first), script(second)
    made = [{item.name for transfer in transfers for item in transfer} for transfers in scripts]
    ranks = [
        Rank(rank, transfers, frozenset(made[0] & made[1]), rules, deaths > 0 or timeouts, timeouts)
        for rank, transfers in enumerate(scripts)
    ]
    cells: dict[str, Value] = {"abort": None}
    for rank in range(2):
        cells |= {f"state of rank {rank}": RUNNING, f"bell of rank {rank}": 0, f"outcomes of rank {rank}": ()}
        cells |= {f"offer of rank {rank}": 0, f"offer fields of rank {rank}": TORN, f"buffer of rank {rank}": REUSED}
        cells |= {f"settled of rank {rank}": (0, ""), f"answer fields of rank {rank}": TORN}
        cells |= {f"filled of rank {rank}": (0, 0), f"drained of rank {rank}": (0, 0)}
        cells |= {f"piece {piece} of rank {rank}": REUSED for piece in range(PIECES)}
    actors = [Actor(f"rank {rank.rank}", rank.program, rank.obituary) for rank in ranks]
    return System(actors, cells, deaths).explore(until)
