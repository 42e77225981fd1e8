"""Where the ranks of a job meet that hccl-run did not start.

All that they have in common is the name of their meeting (`placement.py`).  Its digest is the name of an abstract Unix
socket: whoever comes first binds it, starts the process that serves the job (`serving.py`) with it, and then comes in
by it as everybody else does.  Nobody has to wait for rank 0, and who waits in vain learns who has come.

The name is free again as soon as all ranks have come, so the next job of the same name meets there anew.
"""

import errno
import hashlib
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

from .. import settings
from .errors import JoinError
from .placement import Placement

# Private meetings that this process has opened, and whose server it has not started.
_private: dict[str, socket.socket] = {}

QUEUE = 4096  # the kernel cuts it to net.core.somaxconn
PAUSE_SECONDS = 0.002
START_SECONDS = 60.0


def connect(placement: Placement, deadline: float) -> socket.socket:
    """A connection to the server of the job; the first to come starts it. JoinError if that fails."""
    address = f"\0ascend_rt-meeting-{os.getuid()}-{hashlib.sha256(placement.meeting.encode()).hexdigest()[:32]}"
    while True:
        listener = _bind(address)
        if listener is not None:
            with listener:
                start_server(listener)
        connection = _connect(address)
        if connection is not None:
            return connection
        # Bound by another and not listening yet, or too many are waiting to be heard.
        if time.monotonic() > deadline:
            raise JoinError(f"rank {placement.rank}: the server of the job, which another rank starts, does not answer")
        time.sleep(PAUSE_SECONDS)


def open_private() -> str:
    """A meeting of its own, whose name is for whoever is given it. Its ranks may come at once, and are heard when this
    process comes, too."""
    name = f"ascend_rt-meeting-{secrets.token_hex(16)}"
    listener = _bind(f"\0{name}")
    assert listener is not None
    _private[name] = listener
    return name


def connect_private(name: str, rank: int) -> socket.socket:
    """A connection to the server of a private meeting, which the process starts that has opened it. JoinError if there
    is no such meeting on this host."""
    listener = _private.pop(name, None)
    if listener is not None:
        with listener:
            start_server(listener)
    connection = _connect(f"\0{name}")
    if connection is None:
        raise JoinError(
            f"rank {rank}: nobody meets at {name} any more, or not on this host: either the process that made the root "
            "info has ended, or all ranks that it is for have come"
        )
    return connection


def start_server(listener: socket.socket) -> None:
    """Start the process that serves a job, whose ranks come by `listener`. JoinError if it cannot be started."""
    # A new interpreter: this process has threads, and none of them would be there in a fork.
    words = [sys.executable, "-P", "-m", "ascend_rt.link.serving", str(listener.fileno())]
    package = str(Path(__file__).parents[2])
    try:
        done = subprocess.run(
            words,
            env=settings.for_server(settings.environment(), package),
            pass_fds=(listener.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=START_SECONDS,
        )
        why = done.stderr.decode(errors="replace").strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if why:
        raise JoinError(f"the process that serves the job cannot be started ({' '.join(words[:-1])}): {why}")


def _bind(address: str) -> socket.socket | None:
    """A socket that listens at `address`; None if another does."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(address)
        listener.listen(QUEUE)
    except OSError as error:
        listener.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return listener


def _connect(address: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        connection.connect(address)
    except (ConnectionRefusedError, BlockingIOError):
        connection.close()
        return None
    return connection
