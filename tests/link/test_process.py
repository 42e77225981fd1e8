"""What the kernel says about a process."""

import os
import signal
import subprocess
import sys

import pytest

from ascend_rt.link.process import open_pidfd, process_state

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
