"""The warm process of the pool: has imported everything, and forks into hccl-run for each request.

Requests come as lines of JSON: the words behind hccl-run, variables to add to the environment, where to run, and a
folder for what the job prints. Each is answered with the job's exit code. The process has one thread and ends with its
input.
"""

import atexit
import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from .. import settings
from ..core._core import die_with_parent
from ..launcher.cli import ONE_THREAD, main

# What test files import: found once here instead of once per rank.
OFTEN_IMPORTED = ("numpy.random", "ml_dtypes", "ascend_rt.hccl.world", "pytest", "hypothesis")


def serve() -> None:
    """Answer requests until the input ends."""
    environ = settings.environment()
    settings.adopt({**environ, **ONE_THREAD})
    for name in OFTEN_IMPORTED:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    settings.adopt(environ)
    gc.freeze()
    for line in sys.stdin:
        print(_exit_code_of(json.loads(line)), flush=True)


def _exit_code_of(request: dict[str, Any]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        die_with_parent(parent)
        _exit(_become_hccl_run(request))
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become_hccl_run(request: dict[str, Any]) -> int:
    folder = Path(request["folder"])
    for number, name in ((0, os.devnull), (1, folder / "stdout"), (2, folder / "stderr")):
        fd = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(fd, number)
        os.close(fd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    settings.adopt({**settings.environment(), **request["environ"]})
    sys.argv = ["hccl-run", *request["words"]]
    try:
        return main()
    except SystemExit as leaving:  # of hccl-run itself or, in one of its forks, of a rank's program
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
            return 1
        return int(leaving.code or 0)


def _exit(code: int) -> None:
    """End this process as the interpreter would, but without taking all that was imported apart again: that takes
    longer than most tests."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
