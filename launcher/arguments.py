"""What stands on hccl-run's command line: its own options, then the program, whose words are never looked at."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from .. import settings
from ..link.limits import usable_cpus
from ..link.states import MOST_RANKS
from .program import Program
from .tune import DEFAULT_RANKS

WITH_VALUE = ("-n", "--env", "--timeout", "--grace", "--hbm", "--devices", "--link", "--log-dir")
SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

DESCRIPTION = """\
Start a program on N ranks, watch it and explain how it ended.

The exit code is that of the first failure: the rank's own, or 128 + the number of its signal; 1 if a rank left with 0
while others waited for it; 124 for --timeout; 130 for Ctrl-C.
"""
EPILOG = """\
The ranks of a Python program are forked from one warm interpreter. Any other program is executed, and so is a Python
program with --env of a variable that is read at start: PYTHON*, LD_*, OMP_*, OPENBLAS_*, MKL_*.
"""


def split(words: Sequence[str]) -> tuple[list[str], Program | None]:
    """hccl-run's own options, and the program with its arguments; None if there is none."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return list(words[:at]), _program("command", words[at + 1 :])
        if word == "-m":
            return list(words[:at]), _program("module", words[at + 1 :])
        if not word.startswith("-"):
            return list(words[:at]), _program("script", words[at:])
        at += 2 if word in WITH_VALUE else 1
    return list(words), None


def parser() -> argparse.ArgumentParser:
    """Parses hccl-run's own options."""
    cpus = usable_cpus()
    parser = argparse.ArgumentParser(
        prog="hccl-run",
        usage="hccl-run [options] script.py | -m module | -- program  [arguments]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-n", type=ranks, default=cpus, metavar="N", help=f"ranks (default: the usable processors, here {cpus})")
    add("--env", type=variable, action="append", default=[], metavar="K=V", help="set a variable in all ranks")
    add("--timeout", type=seconds, metavar="S", help="longest time that the whole job may take")
    grace = "time that ranks have to end after the first failure, and again after a signal (default: 5)"
    add("--grace", type=seconds, default=5.0, metavar="S", help=grace)
    add("--hbm", type=size, metavar="SIZE", help="memory of each device, as 512M or 2G (default: a shared budget)")
    devices = "devices of the host, at least N; a rank may open any (default: N, or ASCEND_RT_DEVICES)"
    add("--devices", type=ranks, metavar="M", help=devices)
    link = "emulate links between ranks: 2GB/s,5us; 0-1:2GB/s,5us for one pair; several with ; between them"
    add("--link", metavar="LINK", help=link)
    names = "`import acl` and `import hccl` of a Python program mean those of ascend_rt: run pyACL programs"
    add("--acl", action="store_true", help=names)
    add("--log-dir", type=Path, metavar="DIR", help="also write the output to DIR/rank_N.stdout and .stderr")
    add("--no-prefix", action="store_true", help="do not begin each line of output with its [rank]")
    tune = f"measure the algorithms of this host with 2, 4 ... N ranks (default: {DEFAULT_RANKS}) and keep what wins"
    add("--tune", nargs="?", type=tuned_ranks, const=DEFAULT_RANKS, metavar="=N", help=tune)
    add("--help-env", action="store_true", help="list the environment variables that ascend_rt reads, and exit")
    return parser


def ranks(text: str) -> int:
    """A number of ranks."""
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MOST_RANKS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks; expected 1 to {MOST_RANKS}")
    return int(text)


def tuned_ranks(text: str) -> int:
    """A number of ranks among which there is something to choose."""
    if ranks(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}: there is nothing to choose for one rank; expected 2 or more")
    return ranks(text)


def seconds(text: str) -> float:
    """A number of seconds, 0 or more."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return float(text)


def size(text: str) -> int:
    """Bytes: a number and perhaps K, M, G or T (powers of 1024), as in 512M, 2G or 1.5GiB."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmgt]?)(?:i?b)?", text.lower())
    nbytes = int(float(match[1]) * SIZE_UNITS[match[2]]) if match else 0
    if nbytes < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; expected bytes, or a number with K, M, G or T: 512M")
    return nbytes


def variable(text: str) -> tuple[str, str]:
    """NAME=VALUE; the value may be empty."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} sets no variable; expected NAME=VALUE")
    if name in settings.JOB:
        raise argparse.ArgumentTypeError(f"{name} is what hccl-run itself tells each rank")
    return name, value


def _program(kind: Literal["script", "module", "command"], words: Sequence[str]) -> Program | None:
    return Program(kind, words[0], tuple(words[1:])) if words else None
