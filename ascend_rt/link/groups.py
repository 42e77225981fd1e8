"""Groups of ranks that have a communicator of their own, as the server of the job keeps them.

A group is formed when each of its ranks has claimed its place, under a key that they have in common and nobody else
uses at the time.  The server compares what they say, gives the group a board, and tells all who the members are.  From
then on the death of a member ends the group's communicator; a board that no member has any more is wiped and given out
again.

    rank   -> server    group NUMBER KEY RANK SIZE MEMBERS OFFER TERMS
    server -> rank      formed NUMBER BOARD MEMBERS OFFER
                        unformed NUMBER WHY RANKS TEXT    WHY: gone, differs, settings, refused, taken, room
                        withdrawn NUMBER RANKS            the ranks of the group that had not come
    rank   -> server    withdraw NUMBER KEY               it does not wait any more
                        drop BOARD                        it does not use the board any more

NUMBER is that of the request and RANK the one in the group.  MEMBERS are the ranks in the job, in the order of those in
the group, or - if a rank does not know them.  OFFER is a word that rank 0 of the group brings and all get: what has to
be the same on all, and is rank 0's; - from the others.  TERMS are lines NAME=VALUE on which all have to agree, or why
the rank refuses.

The key `world` is that of all ranks of the job, whose board is always there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core._core import Segment, board_nbytes
from .states import AbortKind, RankState

PAGE_NBYTES = 4096
WORLD = "world"
REFUSED = "refused: "
"""Before why a rank cannot be in a group, in the place of its terms."""


class _Claim(NamedTuple):
    """One rank that has come."""

    rank: int
    """in the job"""
    number: int
    """of its request"""
    terms: str


@dataclass
class _Forming:
    """A group of which some ranks have come."""

    size: int
    members: str
    first: int
    """who came first, in the group"""
    claims: dict[int, _Claim] = field(default_factory=dict)
    """by rank in the group"""
    offer: str = "-"
    refusal: str = ""
    told: int = 0
    """to so many ranks the refusal has been told"""


@dataclass
class _Board:
    nbytes: int
    members: tuple[int, ...]
    holders: set[int]
    """members that may still use it"""


class Groups:
    """The groups of one job. `say(rank, packet)` sends a packet to a rank of the job."""

    def __init__(self, segment: Segment, say: Callable[[int, str], None]) -> None:
        self._segment, self._say = segment, say
        self._forming: dict[str, _Forming] = {}
        self._boards: dict[int, _Board] = {}

    @property
    def boards(self) -> int:
        """Groups that are alive."""
        return len(self._boards)

    def heard(self, rank: int, packet: str) -> bool:
        """Take in what a rank has said; False if it is none of the above."""
        word, _, rest = packet.partition(" ")
        if word == "drop" and _is_number(rest):
            self.drop(rank, int(rest))
            return True
        return (word == "group" and self._claim(rank, rest)) or (word == "withdraw" and self._withdraw(rank, rest))

    def _claim(self, rank: int, words: str) -> bool:
        parts = words.split(" ", 6)
        if len(parts) != 7 or not all(_is_number(parts[at]) for at in (0, 2, 3)):
            return False
        number, place, size = (int(parts[at]) for at in (0, 2, 3))
        key, (members, offer, terms) = parts[1], parts[4:]
        if not place < size <= self._segment.ranks or not (members == "-" or all(map(_is_number, members.split(",")))):
            return False
        forming = self._forming.setdefault(key, _Forming(size, members, place))
        if not forming.refusal and terms.startswith(REFUSED):
            forming.refusal = f"refused {place} rank {place} cannot take part: {terms.removeprefix(REFUSED)}"
        if not forming.refusal:
            forming.refusal = _difference(forming, place, size, members) or self._absence(members)
        if place in forming.claims and not forming.refusal:
            owner = forming.claims[place].rank
            self._say(rank, f"unformed {number} taken {place} rank {place} is rank {owner} of the job already")
            return True
        forming.claims[place] = _Claim(rank, number, terms)
        if place == 0:
            forming.offer = offer
        if not forming.refusal and len(forming.claims) == forming.size:
            forming.refusal = _difference_of_terms(forming.claims)
            if not forming.refusal:
                self._form(key, forming)
        if forming.refusal:
            self._refuse(key, forming)
        return True

    def _withdraw(self, rank: int, words: str) -> bool:
        number, _, key = words.partition(" ")
        if not _is_number(number):
            return False
        forming = self._forming.get(key)
        if forming is None:
            return True
        missing = _list([place for place in range(forming.size) if place not in forming.claims])
        difference = _difference_of_terms(forming.claims)
        kept = {place: claim for place, claim in forming.claims.items() if claim[:2] != (rank, int(number))}
        forming.claims = kept
        if not kept:
            del self._forming[key]
        if difference:
            self._say(rank, f"unformed {number} {difference}; and not all ranks have come: {missing} is missing")
        else:
            self._say(rank, f"withdrawn {number} {missing}")
        return True

    def drop(self, rank: int, offset: int) -> None:
        """A rank does not use a board any more."""
        board = self._boards.get(offset)
        if board is not None:
            board.holders.discard(rank)
            if not board.holders:
                del self._boards[offset]
                self._segment.wipe(offset, board.nbytes)

    def ended(self, rank: int, *, left: bool) -> None:
        """A rank is gone, and its state published: its communicators have ended, and groups with it are not formed."""
        for offset, board in list(self._boards.items()):
            if rank in board.members and not left:
                self._segment.raise_abort(AbortKind.DEATH, rank, offset)
            self.drop(rank, offset)
        for key, forming in list(self._forming.items()):
            forming.claims = {place: claim for place, claim in forming.claims.items() if claim.rank != rank}
            if str(rank) in forming.members.split(","):
                forming.refusal = self._absence(forming.members)
                self._refuse(key, forming)

    def _form(self, key: str, forming: _Forming) -> None:
        members = tuple(forming.claims[place].rank for place in range(forming.size))
        del self._forming[key]
        offset = 0 if key == WORLD else self._give_out(members)
        for rank, number, _ in forming.claims.values():
            if offset is None:
                text = f"there is no room for the board of another group: {len(self._boards)} are alive"
                self._say(rank, f"unformed {number} room - {text}")
            else:
                self._say(rank, f"formed {number} {offset} {_list(members)} {forming.offer}")

    def _refuse(self, key: str, forming: _Forming) -> None:
        for rank, number, _ in forming.claims.values():
            self._say(rank, f"unformed {number} {forming.refusal}")
        forming.told += len(forming.claims)
        forming.claims = {}
        if forming.told >= forming.size:
            del self._forming[key]

    def _give_out(self, members: tuple[int, ...]) -> int | None:
        """The offset of a fresh board, None if there is no room; the first gap that is large enough."""
        nbytes = -(-board_nbytes(len(members)) // PAGE_NBYTES) * PAGE_NBYTES
        offset, room = self._segment.group_boards()
        end = offset + room
        for taken in sorted(self._boards):
            if taken - offset >= nbytes:
                break
            offset = taken + self._boards[taken].nbytes
        if end - offset < nbytes:
            return None
        self._boards[offset] = _Board(nbytes, members, set(members))
        return offset

    def _absence(self, members: str) -> str:
        """Why a group of these members is not formed; empty if all are there."""
        for rank in [] if members == "-" else map(int, members.split(",")):
            if rank >= self._segment.ranks:
                return f"differs - the job has no rank {rank}"
            if self._segment.rank_line(rank).state in (RankState.LEFT, RankState.DEAD):
                return f"gone {rank} rank {rank} has ended before the group was formed"
        return ""


def _difference(forming: _Forming, place: int, size: int, members: str) -> str:
    """What two ranks do not agree on; empty if they do."""
    pairs = [("size", str(forming.size), str(size)), ("members", forming.members, members)]
    for what, one, other in pairs:
        if one != other:
            text = f"rank {forming.first} has {what} {one} and rank {place} {what} {other}"
            return f"differs {forming.first},{place} {text}"
    return ""


def _difference_of_terms(claims: dict[int, _Claim]) -> str:
    """What the ranks do not agree on, all that they say of it, and those who are not of the most; empty if they do."""
    lines = {place: claims[place].terms.split("\n") for place in sorted(claims)}
    told: list[str] = []
    odd: set[int] = set()
    for at in range(max(map(len, lines.values()), default=0)):
        ranks: dict[str, list[int]] = {}
        for place, terms in lines.items():
            ranks.setdefault(terms[at] if at < len(terms) else "nothing", []).append(place)
        if len(ranks) > 1:
            told.append(" and ".join(f"{_named(places)} {term}" for term, places in ranks.items()))
            sizes = sorted(map(len, ranks.values()))
            fewest = sizes[-1] if sizes[-1] == sizes[-2] else sizes[-2]
            odd |= {place for places in ranks.values() if len(places) <= fewest for place in places}
    return f"settings {_list(sorted(odd))} {'; '.join(told)}" if told else ""


def _named(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} have"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _list(ranks: Sequence[int]) -> str:
    return ",".join(map(str, ranks)) or "-"
