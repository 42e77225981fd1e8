"""What the kernel says about a process: is it stopped, held by a debugger, gone?"""

import os
import socket
from pathlib import Path
from typing import Literal

ProcessState = Literal["running", "sleeping", "blocked in the kernel", "stopped", "held by a debugger", "gone"]

_STATES: dict[str, ProcessState] = {
    "R": "running",
    "S": "sleeping",
    "D": "blocked in the kernel",
    "T": "stopped",
    "t": "held by a debugger",
    "Z": "gone",
    "X": "gone",
}
_SO_PEERPIDFD = 77  # Linux 6.5; Python has no name for it


def process_state(pid: int) -> ProcessState:
    """The state of process `pid`; one that a debugger has stopped is held by it, however it was stopped first."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # ESRCH and ENOENT: no such process
        return "gone"
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    state = _STATES.get(fields["State"].split()[0], "running")
    if state == "stopped" and int(fields.get("TracerPid", "0")) != 0:
        return "held by a debugger"
    return state


def peer_pidfd(connection: socket.socket, pid: int) -> int | None:
    """A pidfd of the process at the other end, which the kernel named `pid`; None if it is gone already."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:  # a kernel before 6.5; then the number could only be another's if the peer died just now
        return open_pidfd(pid)


def open_pidfd(pid: int) -> int | None:
    """A pidfd of process `pid`; None if there is no such process, or the kernel (before 5.3) or a sandbox refuses."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
