"""Who may join a job, who is told what, and that nobody else disturbs it: server and clients in one process."""

import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ascend_rt import settings
from ascend_rt.core._core import Segment
from ascend_rt.link import rendezvous
from ascend_rt.link.errors import JoinError
from ascend_rt.link.membership import Membership
from ascend_rt.link.rendezvous import join
from ascend_rt.link.segment import MIB
from ascend_rt.link.server import GREETING_SECONDS, STRANGERS, Rendezvous
from ascend_rt.link.states import RankState
from ascend_rt.settings import for_rank, read

pytestmark = pytest.mark.threads

SECONDS = 20.0
JOINING, RUNNING = RankState.JOINING, RankState.RUNNING
SIZE = 3


class Server:
    """A rendezvous whose loop the test turns."""

    def __init__(self) -> None:
        self.segment = Segment.create(SIZE, SIZE, 64 * MIB, MIB, MIB)
        self.joined: list[tuple[int, int]] = []
        self.fences: list[tuple[int, int]] = []
        self.undone: list[tuple[int, int]] = []
        self.meeting = Rendezvous(self.segment, self._joined, self._fenced, self._undone)
        self.welcome = f"welcome {self.meeting.address}"
        self.selector = selectors.DefaultSelector()
        for rank in range(SIZE):
            self.meeting.expect(rank, os.getpid(), forked=True)
        self.meeting.serve(self.selector)

    def _fenced(self, rank: int, by: int) -> None:
        self.fences.append((rank, by))

    def _undone(self, rank: int, calls: int) -> None:
        self.undone.append((rank, calls))

    def _joined(self, rank: int, pid: int, pidfd: int | None) -> None:
        self.joined.append((rank, pid))
        if pidfd is not None:
            os.close(pidfd)

    def turn_until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not done():
            assert time.monotonic() < deadline
            for key, _ in self.selector.select(0.01):
                key.data()

    def states(self) -> list[int]:
        return [self.segment.rank_line(rank).state for rank in range(SIZE)]

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(SECONDS)
        connection.connect(f"\0{self.meeting.address}")
        return connection

    def answer(self, greeting: bytes) -> tuple[str, list[int]]:
        """What the server says to `greeting`, and how many descriptors come along."""
        connection = self.connect()
        connection.send(greeting)
        with ThreadPoolExecutor(1) as pool:
            received = pool.submit(socket.recv_fds, connection, 4096, 4)
            self.turn_until(received.done)
        packet, descriptors, _, _ = received.result()
        for descriptor in descriptors:
            os.close(descriptor)
        connection.close()
        return packet.decode(), descriptors


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setattr(rendezvous, "_inherited", server.segment)
    monkeypatch.setattr(settings, "tell_children", lambda job: None)
    yield server
    server.meeting.close()
    server.selector.close()


@pytest.fixture
def start_join(server: Server) -> Iterator[Callable[..., "Future[Membership]"]]:
    """start_join(rank, **environment): `join` of that rank, under way in a thread."""
    with ThreadPoolExecutor(SIZE + 1) as pool:

        def start(rank: int, **extra: str) -> "Future[Membership]":
            environ = for_rank(extra, job=server.meeting.address, rank=rank, size=SIZE, master_port=1)
            return pool.submit(join, read(environ))

        yield start


def test_all_join(server: Server, start_join: Callable[..., "Future[Membership]"]) -> None:
    """Nobody is let in before the last has come; then all are, and each is its rank."""
    early = [start_join(rank) for rank in (0, 1)]
    server.turn_until(lambda: server.states() == [RUNNING, RUNNING, JOINING])
    assert not any(each.done() for each in early)
    everyone = [*early, start_join(2)]
    server.turn_until(lambda: all(each.done() for each in everyone))
    members = [each.result() for each in everyone]
    assert [(member.rank, member.size) for member in members] == [(0, 3), (1, 3), (2, 3)]
    assert all(member.segment is server.segment for member in members)
    assert server.joined == []
    members[2].fence(1)
    members[2].fence(0)
    server.turn_until(lambda: len(server.fences) == 2)
    assert server.fences == [(1, 2), (0, 2)]
    for member in members:
        member.close()
        member.close()
        member.fence(0)
    server.turn_until(lambda: len(server.selector.get_map()) == 1)


def test_a_rank_that_ends_lets_the_others_down(server: Server, start_join: Callable[..., "Future[Membership]"]) -> None:
    early = start_join(0)
    server.turn_until(lambda: server.states()[0] == RUNNING)
    server.segment.set_state(1, 4, cause=-9, pid=77)
    server.meeting.ended(1)
    late = start_join(2)
    server.turn_until(lambda: early.done() and late.done())
    for rank, each in ((0, early), (2, late)):
        with pytest.raises(
            JoinError, match=rf"rank {rank}: rank 1 \(process 77\) was killed by signal 9 \(SIGKILL\) before"
        ) as raised:
            each.result()
        assert raised.value.ranks == (1,)
    assert server.meeting.let_down == {0: 1, 2: 1}


def test_missing_ranks_are_named(server: Server, start_join: Callable[..., "Future[Membership]"]) -> None:
    alone = start_join(1, HCCL_CONNECT_TIMEOUT="1")
    server.turn_until(alone.done)
    with pytest.raises(
        JoinError, match=r"rank 1 waited 1 s .* rank 0 \(process \d+\), rank 2 \(process \d+\)"
    ) as raised:
        alone.result()
    assert raised.value.ranks == (0, 2)
    assert "HCCL_CONNECT_TIMEOUT" in str(raised.value)


@pytest.mark.parametrize(
    ("greeting", "says"),
    [
        (b"", ""),
        (b"\0", "not a greeting"),
        (b"GET / HTTP/1.1\r\n\r\n", "not a greeting"),
        (b"ascend_rt 1 join 1", "not a greeting"),
        (b"ascend_rt 1 join 1 3 4", "not a greeting"),
        (b"ascend_rt 1 join -1 3", "not a greeting"),
        (b"ascend_rt 1 join 99999999999999999999 3", "not a greeting"),
        (b"ascend_rt 1 join \xb2 3", "not a greeting"),
        (b"ascend_rt 2 join 1 3", "another version of ascend_rt"),
        (b"ascend_rt 1 join 1 4", "RANK_SIZE is 4"),
        (b"ascend_rt 1 join 3 3", "RANK_ID is 3"),
        (secrets.token_bytes(100_000), "not a greeting"),
    ],
)
def test_garbage_is_refused_and_the_job_goes_on(server: Server, greeting: bytes, says: str) -> None:
    if greeting:
        answer, descriptors = server.answer(greeting)
        assert answer.startswith("refused ") and says in answer
        assert descriptors == []
    else:
        server.connect().close()
    server.turn_until(lambda: len(server.selector.get_map()) == 1)
    assert server.states() == [JOINING] * SIZE
    assert server.answer(b"ascend_rt 1 join 1 3")[0] == server.welcome


def test_a_rank_is_claimed_once(server: Server) -> None:
    first = server.connect()
    first.send(b"ascend_rt 1 join 1 3")
    server.turn_until(lambda: server.states()[1] == RUNNING)
    answer, descriptors = server.answer(b"ascend_rt 1 join 1 3")
    assert f"process {os.getpid()} has joined as rank 1 before: a process joins its job once" in answer
    assert descriptors == []
    first.close()


def test_only_its_own_process_is_a_forked_rank(server: Server) -> None:
    server.meeting.expect(1, 1, forked=True)
    assert f"rank 1 is process 1; process {os.getpid()} is not a rank" in server.answer(b"ascend_rt 1 join 1 3")[0]


def test_any_process_may_be_an_executed_rank_once(server: Server) -> None:
    server.meeting.expect(1, 1, forked=False)
    assert server.answer(b"ascend_rt 1 join 1 3")[0] == server.welcome
    assert server.joined == [(1, os.getpid())]
    assert "has joined as rank 1 before" in server.answer(b"ascend_rt 1 join 1 3")[0]


def test_a_rank_that_has_ended_is_not_to_be_had(server: Server) -> None:
    server.meeting.ended(1)
    assert "rank 1" in (answer := server.answer(b"ascend_rt 1 join 1 3")[0]) and "has ended" in answer


def test_who_says_nothing_is_dismissed_in_time(server: Server) -> None:
    silent = server.connect()
    server.turn_until(lambda: len(server.selector.get_map()) == 2)
    server.meeting.expire(time.monotonic() + GREETING_SECONDS / 2)
    assert len(server.selector.get_map()) == 2
    server.meeting.expire(time.monotonic() + GREETING_SECONDS + 1)
    assert len(server.selector.get_map()) == 1
    assert silent.recv(1) == b""
    silent.close()


def test_many_strangers_keep_nobody_out(server: Server) -> None:
    strangers = []
    for _ in range(STRANGERS + 20):
        strangers.append(server.connect())
        server.turn_until(lambda: not server.selector.select(0))
    assert server.answer(b"ascend_rt 1 join 0 3")[0] == server.welcome
    assert len(server.selector.get_map()) <= STRANGERS + 2
    for stranger in strangers:
        stranger.close()


def test_a_member_that_talks_nonsense_only_loses_its_connection(server: Server) -> None:
    for nonsense in (b"fence", b"fence 3", b"fence -1", b"FENCE 1", b"\xff" * 5000):
        server.meeting.expect(1, os.getpid(), forked=True)
        member = server.connect()
        member.send(b"ascend_rt 1 join 1 3")
        member.send(nonsense)
        server.turn_until(lambda: server.states()[1] == RUNNING and len(server.selector.get_map()) == 1)
        member.close()
    assert server.fences == []


def test_without_a_launcher() -> None:
    alone = join(read({}))
    assert (alone.rank, alone.size) == (0, 1)
    line = alone.segment.rank_line(0)
    assert (line.state, line.pid) == (RUNNING, os.getpid())
    alone.fence(0)
    alone.close()
    for environ in ({"RANK_ID": "2", "RANK_SIZE": "4"}, {"RANK": "2", "WORLD_SIZE": "4"}):
        with pytest.raises(JoinError, match=r"rank 2: .*_SIZE is 4, and MASTER_PORT is not set.*hccl-run -n 4"):
            join(read(environ))


def test_a_job_that_is_over() -> None:
    environ = for_rank({}, job="ascend_rt-over", rank=1, size=2, master_port=1)
    with pytest.raises(JoinError, match="rank 1: the server of job ascend_rt-over does not answer"):
        join(read(environ))


def test_a_server_that_dies_while_ranks_wait(server: Server, start_join: Callable[..., "Future[Membership]"]) -> None:
    waiting = start_join(0)
    server.turn_until(lambda: server.states()[0] == RUNNING)
    server.meeting.close()
    with pytest.raises(JoinError, match="rank 0: the server of the job failed while this rank joined"):
        waiting.result(SECONDS)
