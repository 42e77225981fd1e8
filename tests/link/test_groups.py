"""The server's side of groups: who is told what, and that boards are given out again only when nobody has them."""

import itertools
import random
from collections.abc import Iterator

import pytest

from ascend_rt.core._core import Segment, board_nbytes
from ascend_rt.link.groups import PAGE_NBYTES, Groups
from ascend_rt.link.segment import MIB
from ascend_rt.link.states import AbortKind, RankState

pytestmark = pytest.mark.threads

SIZE = 4


class Server:
    def __init__(self) -> None:
        self.segment = Segment.create(SIZE, SIZE, 64 * MIB, MIB, MIB)
        self.said: list[tuple[int, str]] = []
        self.groups = Groups(self.segment, lambda rank, packet: self.said.append((rank, packet)))

    def hear(self, rank: int, packet: str) -> list[tuple[int, str]]:
        """What is said because of `packet`."""
        assert self.groups.heard(rank, packet)
        said, self.said = self.said, []
        return sorted(said)

    def form(self, *members: int, key: str = "key") -> int:
        """The board of a new group."""
        listed = ",".join(map(str, members))
        for place, rank in enumerate(members):
            said = self.hear(rank, f"group 7 {key} {place} {len(members)} {listed} - ")
            assert bool(said) == (place == len(members) - 1)
        board = int(said[0][1].split()[2])
        assert said == sorted((rank, f"formed 7 {board} {listed} -") for rank in members)
        return board


@pytest.fixture
def server() -> Iterator[Server]:
    yield Server()


def test_members_that_nobody_knows_before(server: Server) -> None:
    """As with a root info: each says its place, learns who the others are, and gets what rank 0 has brought."""
    mine = '{"alpha_us":0.25}'
    assert server.hear(3, "group 1 root 1 2 - theirs A=1") == []
    first, second = server.hear(0, f"group 5 root 0 2 - {mine} A=1")
    board = server.segment.group_boards()[0]
    assert (first, second) == ((0, f"formed 5 {board} 0,3 {mine}"), (3, f"formed 1 {board} 0,3 {mine}"))


def test_the_world_has_its_board(server: Server) -> None:
    for rank in range(SIZE):
        said = server.hear(rank, f"group 1 world {rank} {SIZE} - - ")
    assert said == [(rank, "formed 1 0 0,1,2,3 -") for rank in range(SIZE)]
    server.hear(1, "drop 0")
    assert server.groups.boards == 0


@pytest.mark.parametrize(("first", "second", "why"), [
    ("0 2 0,1 - A=1\nB=2", "1 3 0,1 - A=1\nB=2", "differs 0,1 rank 0 has size 2 and rank 1 size 3"),
    ("0 2 0,1 - ", "1 2 1,0 - ", "differs 0,1 rank 0 has members 0,1 and rank 1 members 1,0"),
    ("0 2 - - A=1\nB=2", "1 2 - - A=1\nB=3", "settings 0,1 rank 0 has B=2 and rank 1 has B=3"),
    ("0 2 - - A=1", "1 2 - - ", "settings 0,1 rank 0 has A=1 and rank 1 has "),
])
def test_what_the_ranks_do_not_agree_on(server: Server, first: str, second: str, why: str) -> None:
    """Both are told, and the key may be used again."""
    assert server.hear(0, f"group 1 key {first}") == []
    assert server.hear(1, f"group 2 key {second}") == [(0, f"unformed 1 {why}"), (1, f"unformed 2 {why}")]
    server.form(0, 1)


def test_a_refusal_waits_for_those_who_come_later(server: Server) -> None:
    server.hear(0, "group 1 key 0 3 - - A=1")
    assert len(server.hear(1, "group 1 key 1 2 - - A=1")) == 2
    assert server.hear(2, "group 1 key 2 3 - - A=1")[0][1].startswith("unformed 1 differs 0,1 ")
    server.form(0, 1, 2)


@pytest.mark.parametrize(("terms", "why"), [
    (["A=1,B=2", "A=2,B=2", "A=1,B=2", "A=3,B=2"], "1,3 ranks 0, 2 have A=1 and rank 1 has A=2 and rank 3 has A=3"),
    (["A=1,B=2", "A=2,B=2", "A=1,B=3", "A=1,B=2"],
     "1,2 ranks 0, 2, 3 have A=1 and rank 1 has A=2; ranks 0, 1, 3 have B=2 and rank 2 has B=3"),
    (["A=1,B=2", "A=2,B=2", "A=1,B=2", "A=2,B=2"], "0,1,2,3 ranks 0, 2 have A=1 and ranks 1, 3 have A=2"),
])
def test_all_ranks_whose_settings_differ_are_named(server: Server, terms: list[str], why: str) -> None:
    """Once all have come; and the key may be used again."""
    for place in (2, 0, 3, 1):
        lines = terms[place].replace(",", "\n")
        said = server.hear(place, f"group 1 key {place} 4 - - {lines}")
    assert said == [(rank, f"unformed 1 settings {why}") for rank in range(4)]
    server.form(0, 1, 2, 3)


def test_settings_that_differ_are_told_when_a_rank_has_not_come(server: Server) -> None:
    server.hear(0, "group 1 key 0 3 - - A=1")
    assert server.hear(2, "group 2 key 2 3 - - A=2") == []
    told = "settings 0,2 rank 0 has A=1 and rank 2 has A=2; and not all ranks have come: 1 is missing"
    assert server.hear(0, "withdraw 1 key") == [(0, f"unformed 1 {told}")]
    assert server.hear(2, "withdraw 2 key") == [(2, "withdrawn 2 0,1")]


def test_a_place_that_is_taken(server: Server) -> None:
    server.hear(0, "group 1 key 0 2 - - ")
    assert server.hear(3, "group 1 key 0 2 - - ") == [(3, "unformed 1 taken 0 rank 0 is rank 0 of the job already")]
    assert len(server.hear(1, "group 1 key 1 2 - - ")) == 2


def test_who_does_not_wait_any_more(server: Server) -> None:
    server.hear(0, "group 1 key 1 3 - - ")
    assert server.hear(0, "withdraw 1 key") == [(0, "withdrawn 1 0,2")]
    assert server.hear(0, "withdraw 1 key") == []
    server.form(1, 2, 3)


def test_the_end_of_a_rank(server: Server) -> None:
    """It ends the communicators it is in, and those that are being formed; a clean exit only the latter."""
    boards = {members: server.form(*members) for members in ((0, 1), (1, 2), (2, 3))}
    server.hear(0, "group 1 key 0 2 0,2 - ")
    server.segment.set_state(2, RankState.DEAD, cause=-9)
    server.groups.ended(2, left=False)
    assert server.said == [(0, "unformed 1 gone 2 rank 2 has ended before the group was formed")]
    server.said.clear()
    assert server.hear(3, "group 1 other 0 2 3,2 - ")[0][1].startswith("unformed 1 gone 2 ")
    words = {members: server.segment.abort_word(board) for members, board in boards.items()}
    death = AbortKind.DEATH << 24 | 3 << 12
    assert words == {(0, 1): 0, (1, 2): death, (2, 3): death}
    server.segment.set_state(0, RankState.LEFT)
    server.groups.ended(0, left=True)
    assert server.segment.abort_word(boards[0, 1]) == 0


def test_boards_do_not_overlap_and_are_fresh(server: Server) -> None:
    """Random groups come and go: a board belongs to one group, and is zero when it is given out."""
    dice = random.Random(20261202)
    alive: dict[int, tuple[int, ...]] = {}
    first, room = server.segment.group_boards()
    for step in range(400):
        members = tuple(dice.sample(range(SIZE), dice.randint(1, SIZE)))
        board = server.form(*members, key=f"key{step}")
        assert board not in alive and board % PAGE_NBYTES == 0
        assert server.segment.abort_word(board) == 0
        server.segment.raise_abort(AbortKind.TIMEOUT, 1, board)
        alive[board] = members
        places = sorted((each, each + board_nbytes(len(alive[each]))) for each in alive)
        assert first <= places[0][0] and places[-1][1] <= first + room
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
        for gone in [each for each in alive if dice.random() < 0.1]:
            for rank in alive.pop(gone):
                assert server.segment.abort_word(gone) != 0
                server.hear(rank, f"drop {gone}")
        assert server.groups.boards == len(alive)
    for members in alive.values():
        for rank in members:
            server.groups.ended(rank, left=True)
    assert server.groups.boards == 0


def test_there_is_no_room(server: Server) -> None:
    boards = [server.form(0, key=f"key{number}") for number in range(8)]
    taken = server.groups._boards
    taken[boards[-1]].nbytes = server.segment.group_boards()[1]
    assert server.hear(0, "group 1 more 0 1 - - ")[0][1].startswith("unformed 1 room - there is no room")


@pytest.mark.parametrize("packet", [
    "group", "group 1 key 0 2 - -", "group x key 0 2 - - ", "group 1 key 2 2 - - ", "group 1 key 0 9 - - ",
    "group 1 key 0 1 a - ", "withdraw", "withdraw x key", "drop", "drop -1", "form 1",
])
def test_what_is_not_our_language(server: Server, packet: str) -> None:
    assert not server.groups.heard(0, packet)
