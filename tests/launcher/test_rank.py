"""A rank's processes and their ends, with and without the newer system calls."""

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ascend_rt.launcher.program import last_words
from ascend_rt.launcher.rank import WRAPPER_SECONDS, Rank

from ascend_rt.link import process
from ascend_rt.link.process import open_pidfd

pytestmark = pytest.mark.processes


class Watched:
    """A rank of which the started process is `sleep`, and what its watcher was told."""

    def __init__(self, *, pidfd: bool = True) -> None:
        self.told: list[object] = []
        self.started = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.words, self.says = os.pipe()
        self.rank = Rank(3, self.started.pid, -1, -1, self.words, open_pidfd(self.started.pid) if pidfd else None)
        self.selector = selectors.DefaultSelector()
        self.rank.watch(
            self.selector,
            lambda rank: self.told.append(rank.said),
            lambda _, cause: self.told.append(cause),
            lambda _: self.told.append("unexplained"),
        )

    def turn(self) -> list[object]:
        """Serve what is ready within 5 s; what the watcher was told so far."""
        for key, _ in self.selector.select(5):
            key.data()
        return self.told

    def close(self) -> None:
        self.rank.reap()
        self.selector.close()
        os.close(self.words)
        os.close(self.says)


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    watched: list[Watched] = []

    def start(**how: bool) -> Watched:
        watched.append(Watched(**how))
        return watched[-1]

    yield start
    for each in watched:
        each.close()


def test_the_end_comes_by_pidfd(watch: Callable[..., Watched]) -> None:
    watched = watch()
    watched.rank.signal(signal.SIGTERM)
    assert watched.turn() == [-signal.SIGTERM]
    assert watched.rank.group_lives()  # as a zombie: its number is still its own


def test_without_pidfds_the_end_is_looked_for(watch: Callable[..., Watched]) -> None:
    watched = watch(pidfd=False)
    watched.rank.look(0.0)
    assert watched.told == []
    watched.rank.signal(signal.SIGKILL)
    os.waitid(os.P_PID, watched.started.pid, os.WEXITED | os.WNOWAIT)
    watched.rank.look(0.0)
    assert watched.told == [-signal.SIGKILL]


def test_last_words_come_before_the_end(watch: Callable[..., Watched]) -> None:
    watched = watch()
    os.write(watched.says, last_words("ValueError: boom", 1))
    assert watched.turn() == ["ValueError: boom"]
    watched.rank.signal(signal.SIGKILL)
    assert watched.turn() == ["ValueError: boom", -signal.SIGKILL]


def test_a_rank_ends_when_both_its_processes_have(watch: Callable[..., Watched]) -> None:
    """The wrapper first, then the program that had joined: only then is the rank gone, and of the wrapper's cause."""
    watched = watch()
    joined = subprocess.Popen(["sleep", "600"])
    watched.rank.joined_by(open_pidfd(joined.pid))
    watched.rank.signal(signal.SIGTERM)
    assert watched.turn() == []
    joined.kill()
    assert watched.turn() == [-signal.SIGTERM]
    joined.wait()


def test_a_wrapper_that_goes_on_leaves_the_end_unexplained(watch: Callable[..., Watched]) -> None:
    watched = watch()
    joined = subprocess.Popen(["true"])
    watched.rank.joined_by(open_pidfd(joined.pid))
    assert watched.turn() == []
    due = watched.rank.due()
    assert due is not None
    watched.rank.look(due - WRAPPER_SECONDS / 2)
    assert watched.told == []
    watched.rank.look(due)
    assert (watched.told, watched.rank.due()) == (["unexplained"], None)
    joined.wait()


def test_refused_system_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 6.5 a peer has no pidfd to give; before 5.3, or in a sandbox, nobody has."""
    import socket

    ours, _theirs = socket.socketpair()
    monkeypatch.setattr(process, "_SO_PEERPIDFD", 9999)
    fallback = process.peer_pidfd(ours, os.getpid())
    assert fallback is not None
    os.close(fallback)

    def refuse(*_: Any) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert process.peer_pidfd(ours, os.getpid()) is None
