"""Words for ranks that do not make the same call: who said what, in which point they differ, what to do about it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .failure import rank_name

Members = Sequence[int] | None
"""The ranks of the job, by rank of the communicator; None: it is the world's, where both are the same."""


@dataclass(frozen=True)
class Statement:
    """What one rank said of its call. A rank whose own arguments are wrong says only why it refuses."""

    rank: int
    call: int
    collective: str
    count: int | None
    """None: its blocks differ in count"""
    dtype: str
    op: str | None
    root: int | None
    fingerprint: int
    refusal: str | None = None
    where: str = ""
    graph: int | None = None
    """identity of the graph that is launched, if the call is a launch"""


# The points in the order in which they explain: a different collective makes all others differ too.
POINTS = {
    "collective": "Every rank must make the same calls in the same order. Often a branch that only some ranks take.",
    "call": "A rank skipped or added a call. Make the same calls on every rank, or comm.resync() on all.",
    "dtype": "Every rank must pass arrays of the same dtype.",
    "count": "Every rank must pass the same count. Often the last, shorter batch: pad it or drop it on all ranks.",
    "op": "Every rank must pass the same op.",
    "root": "Every rank must name the same root.",
    "graph": "Every rank must launch its graph of those that were compared together, and as often as the others.",
    "fingerprint": "The ranks chose different algorithms: give all ranks the same settings and the same version.",
}


def differing_points(statements: Sequence[Statement]) -> list[str]:
    """Names of the points in which the statements are not all equal, the most telling first."""
    return [point for point in POINTS if len({getattr(said, point) for said in statements}) > 1]


def describe(statements: Sequence[Statement], own_rank: int, group: str, members: Members = None) -> str:
    """The whole story of a call that failed because its lines differ or one of them refuses.

    Begins without the error's code; `statements` are those of all ranks, in rank order.
    """
    refused = [said for said in statements if said.refusal is not None]
    if refused:
        return _describe_refusals(statements, refused, group, members)
    points = differing_points(statements)
    if points[0] == "collective":
        points = points[:1]  # they differ in everything else by their nature
    elif len(points) > 1 and points[-1] == "fingerprint":
        points.pop()  # another size, another algorithm
    calls = sorted({f"{said.collective} #{said.call}" for said in statements})
    head = f'{" / ".join(calls)} of group "{group}": the ranks do not agree on {", ".join(map(_word, points))}'
    majority = Counter(map(_what, statements)).most_common(1)[0][0]
    lines = [head]
    for said in statements:
        mark = "     <- this rank" if said.rank == own_rank else ""
        odd = "  !" if len(statements) > 2 and _what(said) != majority else ""
        lines.append(f"  {_name(said.rank, members)}{_place(said)}  {_what(said)}{odd}{mark}")
    lines.append(POINTS[points[0]])
    return "\n".join(lines)


def describe_uneven(
    statements: Sequence[Statement],
    own_rank: int,
    group: str,
    uneven: tuple[int, int, int, int],
    members: Members = None,
) -> str:
    """The same for a collective whose ranks agree in all but how much one sends to another.

    uneven: who sends, to whom, how many elements, and how many that one expects.
    """
    sender, receiver, sent, expected = uneven
    call = f"{statements[0].collective} #{statements[0].call}"
    sends, expects = _name(sender, members), _name(receiver, members)
    odd = f"{sends} sends {sent} elements to {expects}, which expects {expected}"
    lines = [f'{call} of group "{group}": the ranks do not agree on their counts: {odd}']
    for said in statements:
        mark = "     <- this rank" if said.rank == own_rank else ""
        concerned = "  !" if said.rank in (sender, receiver) and len(statements) > 2 else ""
        lines.append(f"  {_name(said.rank, members)}{_place(said)}  {_what(said)}{concerned}{mark}")
    lines.append("What a rank sends to another must be what that one expects of it, on every pair of ranks.")
    return "\n".join(lines)


def describe_transfer(
    sender: Statement, receiver: Statement, own_rank: int, group: str, members: Members = None
) -> str:
    """The same for a message whose two sides do not agree: each statement's root is the rank of the other side."""
    sides = (sender, receiver)
    message = f'message #{sender.call} from rank {sender.rank} to rank {receiver.rank} of group "{group}"'
    refused = [said for said in sides if said.refusal is not None]
    points = [point for point in ("dtype", "count") if getattr(sender, point) != getattr(receiver, point)]
    if refused:
        ranks = " and ".join(_name(rank, members) for rank in sorted({said.rank for said in refused}))
        lines = [f"{message}: refused on {ranks}; it was not sent"]
    else:
        lines = [f"{message}: its two sides do not agree on {' and '.join(points)}; it was not sent"]
    for said in sides:
        mark = "     <- this rank" if said.rank == own_rank and sender.rank != receiver.rank else ""
        lines.append(f"  {_name(said.rank, members)}{_place(said)}  {_what_of_transfer(said)}{mark}")
    if not refused:
        lines.append(
            "Messages from one rank to another are matched in the order in which they are issued: look for one that "
            "only one side has, or make count and dtype equal."
        )
    return "\n".join(lines)


def _what_of_transfer(said: Statement) -> str:
    if said.refusal is not None:
        return f"{said.collective}: {said.refusal}"
    preposition = "to" if said.collective == "send" else "from"
    return f"{said.collective} count={said.count} dtype={said.dtype} {preposition} rank {said.root}"


def _describe_refusals(
    statements: Sequence[Statement], refused: Sequence[Statement], group: str, members: Members
) -> str:
    ranks = ", ".join(_name(said.rank, members) for said in refused)
    call = f"{refused[0].collective} #{refused[0].call}"
    lines = [f'{call} of group "{group}": refused on {ranks}; nothing was moved on any rank']
    for said in statements:
        what = said.refusal if said.refusal is not None else _what(said)
        lines.append(f"  {_name(said.rank, members)}{_place(said)}  {what}")
    return "\n".join(lines)


def _name(rank: int, members: Members) -> str:
    return rank_name(rank if members is None else members[rank], members)


def _word(point: str) -> str:
    return {"fingerprint": "algorithm", "call": "the number of calls"}.get(point, point)


def _place(said: Statement) -> str:
    return f" ({said.where})" if said.where else ""


def _what(said: Statement) -> str:
    words = [said.collective]
    if said.dtype:
        words += [f"count={said.count}"] * (said.count is not None) + [f"dtype={said.dtype}"]
    if said.op is not None:
        words.append(f"op={said.op}")
    if said.root is not None:
        words.append(f"root={said.root}")
    if said.graph is not None:
        words.append(f"graph={said.graph:08x}")
    return " ".join(words)
