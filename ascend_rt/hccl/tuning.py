"""What has been measured on this host: the constants of the model, and where another algorithm beats the default.

`hccl-run --tune` writes it, as JSON, to the user's cache folder, in a file for this host and number of cores. Whoever
is rank 0 of a communicator reads it when that is made, and hands it to the others: ranks may see different caches, but
must choose alike.
"""

import json
import platform
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..diag import log
from ..link.limits import usable_cpus
from ..plan.choice import Row, Table
from ..plan.collectives import COLLECTIVES
from ..plan.model import SHIPPED, Constants, Machine
from ..plan.registry import names
from ..settings import Settings

VERSION = 1


@dataclass(frozen=True)
class Tuning:
    """A machine and the rows of its table of choice that were measured."""

    machine: Machine
    rows: Table = ()

    def to_text(self) -> str:
        """JSON in one line, without blanks."""
        rows = [
            [row.collective, row.algorithm, row.ranks[0], *row.nbytes, row.at_nbytes, row.measured_us]
            for row in self.rows
        ]
        content = {"version": VERSION, "cores": self.machine.cores, **self.machine.constants._asdict(), "rows": rows}
        return json.dumps(content, separators=(",", ":"))

    def for_ranks(self, size: int) -> "Tuning":
        """What concerns a communicator of so many ranks."""
        return replace(self, rows=tuple(row for row in self.rows if row.ranks[0] <= size <= row.ranks[1]))


def shipped() -> Tuning:
    """Of a host on which nobody has measured."""
    return Tuning(Machine(_cores(), SHIPPED))


@lru_cache(maxsize=16)
def parse(text: str) -> Tuning:
    """The inverse of `to_text`. ValueError, with what was expected, for anything else."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError(f"expected version {VERSION}")
    constants = [value for name in Constants._fields if isinstance(value := found.get(name), int | float)]
    if len(constants) < len(Constants._fields) or not all(0 <= value < 1e6 for value in constants):
        raise ValueError(f"expected {', '.join(Constants._fields)}: numbers from 0")
    cores, rows = found.get("cores"), found.get("rows")
    if not isinstance(cores, int) or cores < 1 or not isinstance(rows, list):
        raise ValueError("expected cores, a number from 1, and rows, a list")
    return Tuning(Machine(cores, Constants(*map(float, constants))), tuple(map(_row, rows)))


def path(settings: Settings) -> Path:
    """Where the measurements of this host are, or would be."""
    folder = Path(settings.xdg_cache_home) if settings.xdg_cache_home else Path.home() / ".cache"
    return folder / "ascend_rt" / f"tuning-{platform.node() or 'host'}-{_cores()}-cores.json"


def read(settings: Settings) -> Tuning:
    """What has been measured on this host; `shipped` if there is no file. One that is of no use is told once."""
    try:
        file = path(settings)
        state = file.stat()
        return _read(file, state.st_mtime_ns, state.st_size)
    except (FileNotFoundError, NotADirectoryError, RuntimeError):  # RuntimeError: this user has no home
        return shipped()
    except (OSError, ValueError) as error:
        _say_once(f"{file} is of no use: {error}. hccl-run --tune writes it anew")
        return shipped()


def write(settings: Settings, tuning: Tuning) -> Path:
    """Keeps the measurements of this host; where. OSError if that cannot be."""
    file = path(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(tuning.to_text() + "\n")
    fresh.replace(file)
    return file


@lru_cache(maxsize=4)
def _read(file: Path, _changed_ns: int, _nbytes: int) -> Tuning:
    """Once for each state of the file, since hundreds of communicators may be made."""
    return parse(file.read_text())


@lru_cache
def _cores() -> int:
    return usable_cpus()


def _row(found: object) -> Row:
    match found:
        case [str(collective), str(algorithm), int(ranks), int(first), int(last), int(at), int() | float() as measured]:
            if collective in COLLECTIVES and algorithm in names(collective):
                fits = (ranks, ranks), (first, last)
                return Row(collective, algorithm, *fits, at_nbytes=at, measured_us=measured)
    raise ValueError(f"expected a collective, its algorithm, ranks, bytes and microseconds, not {found!r}")


@lru_cache
def _say_once(text: str) -> None:
    log.write(log.WARNING, text)
    print(f"ascend_rt: {text}", file=sys.stderr, flush=True)
