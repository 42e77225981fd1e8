"""What the kernel says about a process: is it stopped, held by a debugger, gone, and how did it end?"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
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
# Python has no names for these.
_SO_PEERPIDFD = 77  # Linux 6.5
_PIDFD_INFO = struct.Struct("QQ11Ii")  # struct pidfd_info, first version
_PIDFD_GET_INFO = 3 << 30 | _PIDFD_INFO.size << 16 | 0xFF << 8 | 11  # Linux 6.13
_PIDFD_INFO_EXIT = 1 << 3  # Linux 6.15

CAUSE_UNKNOWN = -(2**31)
"""How a process ended, where only its parent can tell (core/layout.h)."""


class WatchedProcess:
    """A process that is not our child, watched by its pidfd, or by its start time where there are no pidfds."""

    def __init__(self, pid: int, pidfd: int | None) -> None:
        self.pid, self.pidfd = pid, pidfd
        self._started = start_time(pid)

    def has_ended(self) -> bool:
        """Whether it is gone, its memory map included."""
        if self.pidfd is None:
            return start_time(self.pid) != self._started or not self._started
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def signal(self, number: int) -> None:
        """Send it a signal; nothing if it is gone."""
        with contextlib.suppress(ProcessLookupError):
            if self.pidfd is not None:
                signal.pidfd_send_signal(self.pidfd, number)
            elif not self.has_ended():
                os.kill(self.pid, number)

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


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


def ending(cause: int) -> str:
    """How a process ended, from its exit code or minus its signal."""
    if cause == CAUSE_UNKNOWN:
        return "nobody but its parent knows how it ended"
    if cause >= 0:
        return f"exit code {cause}"
    try:
        name = signal.Signals(-cause).name
    except ValueError:
        name = "unknown"
    return f"killed by signal {-cause} ({name})"


def cause_of_end(pid: int, pidfd: int | None) -> int:
    """Exit code or minus the signal of a process that has ended and is not our child, CAUSE_UNKNOWN where the kernel
    does not tell: it does while its parent has not taken notice, and since Linux 6.15 afterwards."""
    fields = _stat(pid)
    if fields and fields[0] == "Z" and fields[-1].isdecimal():
        return os.waitstatus_to_exitcode(int(fields[-1]))
    if pidfd is not None:
        info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
        except OSError:
            return CAUSE_UNKNOWN
        mask, *_, status = _PIDFD_INFO.unpack(info)
        if mask & _PIDFD_INFO_EXIT:
            return os.waitstatus_to_exitcode(status)
    return CAUSE_UNKNOWN


def start_time(pid: int) -> str:
    """When process `pid` was started, by the kernel's count: with it a number that is used again is another process.
    Empty if there is no such process, or it has ended."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def ancestor(name: str) -> int | None:
    """The nearest ancestor of this process that runs a program of this name (its first 15 letters)."""
    pid = os.getppid()
    while pid > 1:
        try:
            found = Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
        except OSError:
            return None
        if found == name[:15]:
            return pid
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 0
    return None


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


def is_pidfd_of(fd: int, pid: int) -> bool:
    """Whether a descriptor that somebody sent is a pidfd of process `pid`."""
    try:
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    except OSError:
        return False
    return any(line.split() == ["Pid:", str(pid)] for line in lines)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, ...; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
