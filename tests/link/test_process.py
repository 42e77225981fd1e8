"""What the kernel says about a process."""

import os
import signal
import subprocess
import sys

import pytest

from ascend_rt.link.process import (
    CAUSE_UNKNOWN,
    WatchedProcess,
    cause_of_end,
    ending,
    is_pidfd_of,
    open_pidfd,
    process_state,
)

pytestmark = pytest.mark.processes


def test_states_of_a_child() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert process_state(child.pid) in ("running", "sleeping", "blocked in the kernel")
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert process_state(child.pid) == "stopped"
    finally:
        child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_state(child.pid) == "gone"
    child.wait()
    assert process_state(child.pid) == "gone"
    assert open_pidfd(child.pid) is None


def test_how_a_process_ended_that_is_no_child_of_ours() -> None:
    """While its parent has taken no notice the kernel tells; afterwards only a new kernel does, by the pidfd."""
    for status, code in ((7, 7), (0, 0), (-9, -9)):
        words = ["sh", "-c", "kill -9 $$" if status < 0 else f"exit {status}"]
        child = subprocess.Popen(words)
        watched = WatchedProcess(child.pid, open_pidfd(child.pid))
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert watched.has_ended()
        assert cause_of_end(child.pid, None) == code
        child.wait()
        assert cause_of_end(child.pid, None) == CAUSE_UNKNOWN
        assert cause_of_end(child.pid, watched.pidfd) in (code, CAUSE_UNKNOWN)
        watched.close()
    assert "nobody but its parent knows" in ending(CAUSE_UNKNOWN)
    assert (ending(7), ending(-9), ending(-99)) == (
        "exit code 7", "killed by signal 9 (SIGKILL)", "killed by signal 99 (unknown)"
    )


@pytest.mark.parametrize("with_pidfd", [True, False])
def test_a_watched_process(with_pidfd: bool) -> None:
    child = subprocess.Popen(["sleep", "60"])
    watched = WatchedProcess(child.pid, open_pidfd(child.pid) if with_pidfd else None)
    assert not watched.has_ended()
    watched.signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert watched.has_ended()
    child.wait()
    assert watched.has_ended()
    watched.signal(signal.SIGKILL)
    watched.close()


def test_descriptors_that_are_no_pidfds() -> None:
    pidfd = os.pidfd_open(os.getpid())
    assert is_pidfd_of(pidfd, os.getpid())
    assert not is_pidfd_of(pidfd, 1)
    assert not is_pidfd_of(0, os.getpid()) and not is_pidfd_of(99999, os.getpid())
    os.close(pidfd)


def test_a_debugger_holds_its_process() -> None:
    """A stop under ptrace is the debugger's, even one that came from a signal."""
    source = (
        "import ctypes, os, signal\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.ptrace(0, 0, None, None): print('refused', flush=True); raise SystemExit\n"  # PTRACE_TRACEME
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    child = subprocess.Popen([sys.executable, "-S", "-c", source], stdout=subprocess.PIPE)
    try:
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if process_state(child.pid) == "gone":
            pytest.skip("this sandbox refuses ptrace")
        assert process_state(child.pid) == "held by a debugger"
    finally:
        os.kill(child.pid, signal.SIGKILL)  # Popen.kill() would take the stop of a traced child for its end
        child.communicate()
