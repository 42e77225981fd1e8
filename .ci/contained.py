"""contained.py SECONDS COMMAND...: runs a command and fails if it fails, takes too long or leaves a process behind.

Orphans of the command become children of this process (PR_SET_CHILD_SUBREAPER), whatever session, group or environment
they have given themselves, so what is left is simply what this process still has as children.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE = 3.0  # seconds in which what the command started may still end by itself


def children() -> list[int]:
    """Living children of this process; ended ones are reaped on the way."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [pid for pid in map(int, text.split()) if os.waitpid(pid, os.WNOHANG) == (0, 0)]


def describe(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "ended meanwhile"


def end_all() -> None:
    """Kills the children, then the orphans that this hands over, until none is left."""
    while remaining := children():
        for pid in remaining:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def main(limit: float, command: list[str]) -> int:
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit("contained.py: prctl(PR_SET_CHILD_SUBREAPER) was refused")
    process = subprocess.Popen(command)
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        end_all()
        print(f"took longer than {limit:.0f} s: {command}")
        return 1

    until = time.monotonic() + GRACE
    while (left := children()) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        print(f"left behind: process {pid}: {describe(pid)}")
    end_all()
    if code:
        print(f"exit code {code}: {command}")
    return 1 if code or left else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
