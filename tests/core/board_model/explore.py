"""Explores every interleaving of a few programs that share memory.

A program is a generator.  It yields one `Operation` on shared cells at a time and is sent what the operation
observed; what lies between two yields is local and takes no time.  So a protocol is written as it would be in C, one
yield for each access of a shared word, and need not know that it is being explored:

    def waiter():                                    def poster():
        yield Await("word", 1)                           yield Store("word", 1)

The explorer does not run programs for each interleaving.  Where a program stands is known by its frames: the
instruction each has come to and its local variables.  Two histories that lead to the same frames have the same
future, so each program is an automaton, learned on the way: a node per place, with what each observation leads to.
A state of the whole system is then a string, one character per program (its node) and one per cell (its value), and
a step is the lookup of a few characters.  This costs programs two rules, checked by `test_programs_keep_the_rules`:

* all that a program remembers is in local variables with hashable values: no change to an object, nothing left in
  the middle of an expression while yielding (`seen = yield Load(x)` alone on its side);
* a loop runs over distinct things (the place of a hidden iterator is then told by the loop variable).

What is found:

* a fault: a program says so (`yield Fault("torn payload")`), having seen what must not be seen;
* a hang: no step is possible and a program has not ended.  Waiting is one operation that is not possible until what
  is waited for is there, never a loop that looks again; so a state in which all wait is a state without a step.
  (`daemon` programs may wait for ever.)

The search is breadth first: the trace of each kind of fault is as short as any.

Steps that need no interleaving.  An operation marked `instant` is explored alone and at once: the other programs
make no step before it.  That is sound for an operation that commutes with all operations of the others except
those for which a fault is at stake, and for these finds all that a later moment would find; each says why.

Death.  A mortal program may be replaced by its `obituary` at any step, `deaths` times in all.  What a program only
read before it died nobody can tell, so dying is tried at its start and after each of its writes, not after its reads.
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, ClassVar, TypeAlias

Value: TypeAlias = Hashable
Program: TypeAlias = Generator[Any, Any, Any]


class Operation:
    """One access of shared cells.  Subclasses are frozen dataclasses: operations are compared and kept."""

    instant: ClassVar[bool] = False
    writes: ClassVar[bool] = True

    @property
    def cells(self) -> tuple[str, ...]:
        """What its outcome depends on and what it may change."""
        raise NotImplementedError

    def outcomes(self, *values: Any) -> Iterable[tuple[Value, tuple[Value, ...]]]:
        """Each possible (observation, new values of the cells); none: not possible now."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fault:
    """Yielded by a program that has seen what must not be; it is no step, and the program goes on."""

    kind: str


@dataclass(frozen=True)
class Load(Operation):
    cell: str
    writes = False

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.cell,)

    def outcomes(self, value: Value) -> Iterable[tuple[Value, tuple[Value, ...]]]:
        yield value, (value,)


@dataclass(frozen=True)
class Store(Operation):
    cell: str
    value: Value

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.cell,)

    def outcomes(self, value: Value) -> Iterable[tuple[Value, tuple[Value, ...]]]:
        yield None, (self.value,)


@dataclass(frozen=True)
class CompareAndSwap(Operation):
    """Observes what the cell held before."""

    cell: str
    old: Value
    new: Value

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.cell,)

    def outcomes(self, value: Value) -> Iterable[tuple[Value, tuple[Value, ...]]]:
        yield value, (self.new if value == self.old else value,)


@dataclass(frozen=True)
class Actor:
    name: str
    program: Callable[[], Program]
    obituary: Callable[[], Program] | None = None
    daemon: bool = False


@dataclass
class Exploration:
    """What exploring found: how many states, one shortest trace for each kind of fault, and how it may end."""

    states: int = 0
    faults: dict[str, list[str]] = field(default_factory=dict)
    ends: list[dict[str, Any]] = field(default_factory=list)  # the cells, each way once

    def report(self) -> str:
        lines = [f"{self.states} states"]
        for kind, trace in self.faults.items():
            lines += [f"{kind}, after {len(trace)} steps:", *(f"    {step}" for step in trace)]
        return "\n".join(lines)


@dataclass
class _Node:
    """A place in a program: the operation it stands at (None: it has ended) and where its outcomes lead."""

    history: tuple[Value, ...]
    dead: bool
    mortal: bool
    operation: Operation | None
    faults: tuple[str, ...]
    look: Callable[[str], Any] = str
    steps: dict[Any, list["_Step"]] = field(default_factory=dict)


@dataclass
class _Step:
    changes: tuple[tuple[int, str], ...]  # (position in the state, new character)
    faults: tuple[str, ...]
    text: str


class _Automaton:
    """One actor's program as nodes, learned by running it on the observations that led there."""

    def __init__(self, actor: Actor, position: int, by_history: bool) -> None:
        self.actor, self.position, self.by_history = actor, position, by_history
        self.nodes: list[_Node] = []
        self.places: dict[Value, int] = {}
        self.start = self.node((), dead=False, mortal=True)
        self.buried = self.node((), dead=True, mortal=False) if actor.obituary else None

    def node(self, history: tuple[Value, ...], dead: bool, mortal: bool) -> int:
        program = (self.actor.obituary if dead else self.actor.program)()  # type: ignore[misc]
        operation, faults = _advance(program, None, first=True)
        for observation in history:
            operation, faults = _advance(program, observation)
        where: Value = history if self.by_history else _frames(program)
        mortal = mortal and not dead and operation is not None and self.actor.obituary is not None
        place = (dead, mortal, operation is None, faults, where)
        if place not in self.places:
            self.places[place] = len(self.nodes)
            self.nodes.append(_Node(history, dead, mortal, operation, faults))
        return self.places[place]


def _advance(program: Program, observation: Value, first: bool = False) -> tuple[Operation | None, tuple[str, ...]]:
    faults: list[str] = []
    try:
        said = next(program) if first else program.send(observation)
        while isinstance(said, Fault):
            faults.append(said.kind)
            said = program.send(None)
    except StopIteration:
        return None, tuple(faults)
    return said, tuple(faults)


def _frames(program: Program) -> Value:
    frames: list[Value] = []
    inner: Any = program
    while inner is not None and inner.gi_frame is not None:
        frame = inner.gi_frame
        frames.append((frame.f_lasti, tuple((name, value) for name, value in frame.f_locals.items() if name != "self")))
        inner = inner.gi_yieldfrom
    return tuple(frames)


class System:
    """Actors and the memory they share.

    cells: every cell's first value.  deaths: how many mortal actors may die.
    by_history: tell places apart by all that was observed, not by frames: slow, and a check of the faster way.
    """

    def __init__(self, actors: Sequence[Actor], cells: Mapping[str, Value], deaths: int = 0, by_history: bool = False):
        self.automata = [_Automaton(actor, position, by_history) for position, actor in enumerate(actors)]
        self.deaths_at = len(actors)
        self.position = {name: len(actors) + 1 + index for index, name in enumerate(cells)}
        self.characters: dict[Value, str] = {}
        self.values: list[Value] = []
        self.initial = "".join(
            [chr(automaton.start) for automaton in self.automata]
            + [chr(deaths)]
            + [self.character(value) for value in cells.values()]
        )

    def character(self, value: Value) -> str:
        if value not in self.characters:
            self.characters[value] = chr(len(self.values))
            self.values.append(value)
        return self.characters[value]

    def explore(self, until: Iterable[str] = ()) -> Exploration:
        """Visits every state; given kinds of fault, stops as soon as each of them has been found."""
        wanted = set(until)
        found = Exploration()
        came_from: dict[str, str | None] = {self.initial: None}
        ahead = deque([self.initial])
        ends: set[str] = set()
        while ahead:
            state = ahead.popleft()
            steps = self.steps(state)
            if not steps and self.over(state):
                ends.add(state[self.deaths_at + 1 :])
            elif not steps and "hang" not in found.faults:
                found.faults["hang"] = self.trace(came_from, state)
            for step in steps:
                for kind in step.faults:
                    if kind not in found.faults:
                        found.faults[kind] = [*self.trace(came_from, state), step.text]
                after = state
                for position, character in step.changes:
                    after = after[:position] + character + after[position + 1 :]
                if after not in came_from:
                    came_from[after] = state
                    ahead.append(after)
            if wanted and wanted <= found.faults.keys():
                break
        found.states = len(came_from)
        found.ends = [
            {cell: self.values[ord(character)] for cell, character in zip(self.position, end, strict=True)}
            for end in ends
        ]
        return found

    def over(self, state: str) -> bool:
        return all(
            automaton.actor.daemon or automaton.nodes[ord(state[automaton.position])].operation is None
            for automaton in self.automata
        )

    def steps(self, state: str) -> list[_Step]:
        steps: list[_Step] = []
        for automaton in self.automata:
            node = automaton.nodes[ord(state[automaton.position])]
            if node.operation is None:
                continue
            if not node.steps:
                node.look = itemgetter(*(self.position[cell] for cell in node.operation.cells))
            seen = node.look(state)
            known = node.steps.get(seen)
            if known is None:
                known = node.steps[seen] = self.learn(automaton, node, seen)
            if node.operation.instant:
                return known
            steps += known
            if node.mortal and state[self.deaths_at] != "\0":
                steps.append(self.death(automaton, state))
        return steps

    def learn(self, automaton: _Automaton, node: _Node, seen: Sequence[str]) -> list[_Step]:
        operation = node.operation
        assert operation is not None
        before = tuple(self.values[ord(character)] for character in seen)
        steps = []
        for observation, after in operation.outcomes(*before):
            target = automaton.node((*node.history, observation), node.dead, operation.writes)
            changes = [(automaton.position, chr(target))]
            for cell, old, new in zip(operation.cells, before, after, strict=True):
                if new != old:
                    changes.append((self.position[cell], self.character(new)))
            text = f"{automaton.actor.name}: {operation} -> {observation}"
            steps.append(_Step(tuple(changes), automaton.nodes[target].faults, text))
        return steps

    def death(self, automaton: _Automaton, state: str) -> _Step:
        assert automaton.buried is not None
        left = chr(ord(state[self.deaths_at]) - 1)
        changes = ((automaton.position, chr(automaton.buried)), (self.deaths_at, left))
        return _Step(changes, (), f"{automaton.actor.name} dies")

    def trace(self, came_from: Mapping[str, str | None], state: str) -> list[str]:
        texts: list[str] = []
        before = came_from[state]
        while before is not None:
            texts.append(next(step.text for step in self.steps(before) if _apply(before, step) == state))
            state, before = before, came_from[before]
        return texts[::-1]


def _apply(state: str, step: _Step) -> str:
    characters = list(state)
    for position, character in step.changes:
        characters[position] = character
    return "".join(characters)
