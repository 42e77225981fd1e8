"""Every environment variable of ascend_rt: one strict table, and the only reader of the environment.

A variable is declared once, as a row of `Settings`; reading it, its error text, `hccl-run --help-env` and
docs/settings.md all come from that row.  A value that does not parse is an error: a job whose variable is silently
ignored runs with other limits than its owner believes.

Rows are of three kinds.  *system* rows describe the job and the machine and may stay set; *launcher* rows are what
launchers other than hccl-run tell their processes (`link/placement.py` reads them), and nobody sets them by hand;
*debug* rows are for finding a fault or measuring, and should be removed afterwards.

Whoever starts a process composes its environment here too (`for_rank`, `without_job`, `adopt`), so that no other file
of the package touches `os.environ`; a test keeps it so.
"""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Literal, Self, TypeVar, cast, overload

Value = TypeVar("Value", covariant=True)
Kind = Literal["system", "launcher", "debug"]


class SettingError(ValueError):
    """An environment variable holds what it may not (EI0001): says its name, its value and what was expected."""

    code = "EI0001"

    def __init__(self, name: str, given: str, expected: str) -> None:
        self.name, self.given, self.expected = name, given, expected
        super().__init__(f"{self.code}: environment variable {name} is {given}; expected {expected}.")


@dataclass(frozen=True)
class Whole:
    """Parses a whole number in [low, high]: decimal digits and nothing else."""

    low: int
    high: int = 2**31 - 1

    @property
    def expected(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def __call__(self, text: str) -> int:
        # int() alone would also take " 1", "+1", "1_000" and digits of other scripts.
        if not re.fullmatch(r"[0-9]{1,18}", text) or not self.low <= int(text) <= self.high:
            raise ValueError(self.expected)
        return int(text)


@dataclass(frozen=True)
class Choice:
    """Parses one of a few words, exactly as spelt."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.words)

    def __call__(self, text: str) -> str:
        if text not in self.words:
            raise ValueError(self.expected)
        return text


@dataclass(frozen=True)
class Word:
    """Parses a name or an address: at least one character, no white space."""

    expected: str = "a name without white space"

    def __call__(self, text: str) -> str:
        if not re.fullmatch(r"\S+", text):
            raise ValueError(self.expected)
        return text


@dataclass(frozen=True)
class Text:
    """Parses any text but the empty one."""

    expected: str = "a text"

    def __call__(self, text: str) -> str:
        if not text:
            raise ValueError(self.expected)
        return text


class Setting(Generic[Value]):
    """One row: how a variable is called, parsed and explained.  As an attribute of `Settings` it is the value."""

    def __init__(
        self, name: str, parser: Callable[[str], Value], default: Value, kind: Kind, unit: str, sentence: str
    ) -> None:
        self.name, self.parser, self.default = name, parser, default
        self.kind, self.unit, self.sentence = kind, unit, sentence

    @property
    def expected(self) -> str:
        """What the parser takes, in words."""
        return str(getattr(self.parser, "expected", self.parser))

    def parse(self, environ: Mapping[str, str]) -> Value:
        """The value in `environ`, or the default when it is not set; SettingError when it is set to anything else."""
        text = environ.get(self.name)
        if text is None:
            return self.default
        try:
            return self.parser(text)
        except ValueError:
            given = repr(text) if text else "set but empty"
            unit = f", in {self.unit}" if self.unit else ""
            default = "" if self.default is None else f" ({self.default} when not set)"
            raise SettingError(self.name, given, f"{self.expected}{unit}{default}") from None

    @overload
    def __get__(self, settings: None, owner: type) -> Self: ...
    @overload
    def __get__(self, settings: "Settings", owner: type) -> Value: ...
    def __get__(self, settings: "Settings | None", owner: type) -> Self | Value:
        return self if settings is None else cast(Value, settings.values[self.name])


@dataclass(frozen=True)
class Settings:
    """All settings of one process, parsed: `settings.hccl_exec_timeout` is the value of HCCL_EXEC_TIMEOUT."""

    values: Mapping[str, object]

    # What hccl-run tells each rank; JOB below lists these.
    rank_id = Setting("RANK_ID", Whole(0), None, "system", "", "Rank of this process.")
    rank_size = Setting("RANK_SIZE", Whole(1), None, "system", "", "Number of ranks of the job.")
    device_id = Setting("DEVICE_ID", Whole(0), None, "system", "", "Device that this rank opens when it names none.")
    ascend_rt_devices = Setting(
        "ASCEND_RT_DEVICES", Whole(1, 4094), None, "system", "devices",
        "Devices of the host; one for each rank when not set. hccl-run --devices sets it.",
    )
    rank = Setting("RANK", Whole(0), None, "system", "", "RANK_ID by the name that PyTorch scripts read.")
    local_rank = Setting("LOCAL_RANK", Whole(0), None, "system", "", "Rank of this process among those of its host.")
    world_size = Setting("WORLD_SIZE", Whole(1), None, "system", "", "RANK_SIZE by the name that PyTorch scripts read.")
    local_world_size = Setting("LOCAL_WORLD_SIZE", Whole(1), None, "system", "", "Number of ranks on this host.")
    master_addr = Setting("MASTER_ADDR", Word("a host name or address"), None, "system", "", "Host of rank 0.")
    master_port = Setting(
        "MASTER_PORT", Whole(1, 65535), None, "system", "",
        "A TCP port for the program's own use; without hccl-run, the number by which the ranks of a job meet.",
    )
    ascend_rt_job = Setting(
        "ASCEND_RT_JOB", Word("what hccl-run set"), None, "system", "",
        "Address and nonce of whoever serves this rank's job; never set by hand.",
    )

    torchelastic_run_id = Setting(
        "TORCHELASTIC_RUN_ID", Text(), None, "launcher", "", "torchrun: its --rdzv-id, part of a job's name."
    )
    torchelastic_restart_count = Setting(
        "TORCHELASTIC_RESTART_COUNT", Whole(0), None, "launcher", "", "torchrun: how often it has restarted the ranks."
    )
    ompi_comm_world_rank = Setting(
        "OMPI_COMM_WORLD_RANK", Whole(0), None, "launcher", "", "Open MPI: rank of this process."
    )
    ompi_comm_world_size = Setting(
        "OMPI_COMM_WORLD_SIZE", Whole(1), None, "launcher", "", "Open MPI: number of ranks of the job."
    )
    ompi_comm_world_local_size = Setting(
        "OMPI_COMM_WORLD_LOCAL_SIZE", Whole(1), None, "launcher", "", "Open MPI: number of ranks on this host."
    )
    pmix_namespace = Setting("PMIX_NAMESPACE", Text(), None, "launcher", "", "Open MPI: name of the job.")
    pmi_rank = Setting("PMI_RANK", Whole(0), None, "launcher", "", "MPICH, Intel MPI: rank of this process.")
    pmi_size = Setting("PMI_SIZE", Whole(1), None, "launcher", "", "MPICH, Intel MPI: number of ranks of the job.")
    mpi_localnranks = Setting(
        "MPI_LOCALNRANKS", Whole(1), None, "launcher", "", "MPICH, Intel MPI: number of ranks on this host."
    )
    slurm_procid = Setting("SLURM_PROCID", Whole(0), None, "launcher", "", "Slurm: rank of this process.")
    slurm_ntasks = Setting("SLURM_NTASKS", Whole(1), None, "launcher", "", "Slurm: number of ranks of the step.")
    slurm_nnodes = Setting("SLURM_NNODES", Whole(1), None, "launcher", "", "Slurm: number of hosts of the step.")
    slurm_job_id = Setting("SLURM_JOB_ID", Text(), None, "launcher", "", "Slurm: number of the job.")
    slurm_step_id = Setting(
        "SLURM_STEP_ID", Text(), None, "launcher", "", "Slurm: number of the step; only processes of srun have one."
    )
    slurm_restart_count = Setting(
        "SLURM_RESTART_COUNT", Whole(0), None, "launcher", "", "Slurm: how often the job was started again."
    )

    hccl_connect_timeout = Setting(
        "HCCL_CONNECT_TIMEOUT", Whole(1, 7200), 120, "system", "s",
        "Longest wait for the other ranks to join (CANN: at least 120).",
    )
    hccl_exec_timeout = Setting(
        "HCCL_EXEC_TIMEOUT", Whole(0), 1836, "system", "s",
        "Longest wait inside a collective; 0 waits for ever.",
    )

    ascend_rt_spin = Setting(
        "ASCEND_RT_SPIN", Whole(0), None, "debug", "pauses",
        "Pauses of a waiting rank before it yields its core: 100 when each rank has a core, else 0.",
    )
    ascend_rt_yields = Setting(
        "ASCEND_RT_YIELDS", Whole(0), 200, "debug", "yields",
        "Yields of a waiting rank before it sleeps.",
    )
    ascend_rt_sleep_ms = Setting(
        "ASCEND_RT_SLEEP_MS", Whole(1, 10_000), 50, "debug", "ms",
        "Longest single sleep of a waiting rank; after each it looks at the state of its peers.",
    )
    ascend_rt_packet_bytes = Setting(
        "ASCEND_RT_PACKET_BYTES", Whole(0, 4096), 1024, "debug", "bytes",
        "Calls to which a rank brings no more are carried out in one round, without a plan; the same on all ranks.",
    )
    ascend_rt_piece_kib = Setting(
        "ASCEND_RT_PIECE_KIB", Whole(1, 1 << 20), 512, "debug", "KiB",
        "Arrays outside of device memory go through it in pieces of this size; the same on all ranks.",
    )
    ascend_rt_kernels = Setting(
        "ASCEND_RT_KERNELS", Choice(("auto", "plain", "avx2", "avx512", "neon")), "auto", "debug", "",
        "Which reduction kernels run: auto takes the fastest this processor has. All give the same bits.",
    )

    def __repr__(self) -> str:
        given = (f"{row.name}={self.values[row.name]}" for row in table() if self.values[row.name] != row.default)
        return f"Settings({', '.join(given)})"


# What describes one rank of one job; whatever of it stands in an outer environment is about another job.
JOB = (
    "RANK_ID",
    "RANK_SIZE",
    "DEVICE_ID",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "ASCEND_RT_JOB",
)
PAIRS = (("RANK_ID", "RANK_SIZE"), ("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
PREFIX = "ASCEND_RT_"
CANN = {"ASCEND_RT_VISIBLE_DEVICES"}  # carries our prefix, belongs to CANN


def table() -> tuple[Setting[object], ...]:
    """All rows, in the order they are declared."""
    return tuple(row for row in vars(Settings).values() if isinstance(row, Setting))


def environment() -> dict[str, str]:
    """A copy of the environment of this process, to be composed into a child's."""
    return dict(os.environ)


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Parses every row from `environ` (default: the environment of this process).

    Raises SettingError for a value that does not parse, a rank outside its size, half of a pair, and an ASCEND_RT_ name
    that is none of ours.
    """
    environ = os.environ if environ is None else environ
    for name in sorted(environ):
        _check_spelling(name)
    settings = Settings(MappingProxyType({row.name: row.parse(environ) for row in table()}))
    for rank, size in PAIRS:
        _check_pair(rank, size, settings.values[rank], settings.values[size])
    return settings


def without_job(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the rank and job it describes: for a program that takes no part, or starts its own job."""
    return {name: text for name, text in environ.items() if name not in JOB}


def for_rank(
    environ: Mapping[str, str], *, job: str, rank: int, size: int, master_port: int, master_addr: str = "127.0.0.1"
) -> dict[str, str]:
    """`environ` as rank `rank` of `size` on one host sees it.

    Replaces everything `environ` says about another job: a job started inside a rank is a job of its own.
    """
    described = {
        "RANK_ID": rank,
        "RANK_SIZE": size,
        "DEVICE_ID": rank,
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": size,
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": master_port,
        "ASCEND_RT_JOB": job,
    }
    return {**environ, **{name: str(value) for name, value in described.items()}}


def for_server(environ: Mapping[str, str], package: str) -> dict[str, str]:
    """`environ` for the process that serves a job: no rank, and it finds the package in the folder `package`."""
    others = [path for path in [environ.get("PYTHONPATH", "")] if path]
    return {**without_job(environ), "PYTHONPATH": os.pathsep.join([package, *others])}


def adopt(environ: Mapping[str, str]) -> None:
    """Makes `environ` the environment of this process: a forked rank does this before it runs its program."""
    os.environ.clear()
    os.environ.update(environ)


def tell_children(job: str) -> None:
    """A program that this process starts finds in its environment whose job that is about, and that it is no rank."""
    os.environ["ASCEND_RT_JOB"] = job


def help_text() -> str:
    """The table for `hccl-run --help-env`."""
    parts = []
    for kind, title in _TITLES.items():
        parts.append(f"{title}\n")
        for row in table():
            if row.kind == kind:
                unit = f" {row.unit}" if row.unit and row.default is not None else ""
                parts.append(f"  {row.name}  ({row.expected}; default: {_shown(row.default)}{unit})")
                parts.append(f"      {row.sentence}\n")
    return "\n".join(parts)


def markdown() -> str:
    """docs/settings.md, whole."""
    parts = [
        "# Settings\n\n"
        "Made from `ascend_rt/settings.py` by `python -m ascend_rt.settings`; `hccl-run --help-env` prints the same.\n"
        "A value that does not parse, and a misspelt `ASCEND_RT_` name, is an error (EI0001).\n"
    ]
    for kind, title in _TITLES.items():
        parts.append(f"\n## {title}\n\n| Variable | Takes | Unit | Default | Meaning |\n|---|---|---|---|---|\n")
        parts.extend(
            f"| `{row.name}` | {row.expected} | {row.unit} | {_shown(row.default)} | {row.sentence} |\n"
            for row in table()
            if row.kind == kind
        )
    return "".join(parts)


_TITLES: dict[Kind, str] = {
    "system": "System: describe the job and the machine",
    "launcher": "Launcher: what torchrun, mpirun and srun tell their processes, not to be set by hand",
    "debug": "Debug: for finding a fault or measuring, remove them afterwards",
}


def _shown(default: object) -> str:
    return "not set" if default is None else str(default)


def _check_spelling(name: str) -> None:
    known = [row.name for row in table()]
    if name.startswith(PREFIX) and name not in CANN and name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"{near[0]} perhaps" if near else "a name that hccl-run --help-env lists"
        raise SettingError(name, "set but not known", hint)


def _check_pair(rank: str, size: str, rank_value: object, size_value: object) -> None:
    if (rank_value is None) != (size_value is None):
        given, absent = (rank, size) if size_value is None else (size, rank)
        value = rank_value if size_value is None else size_value
        raise SettingError(given, repr(str(value)), f"{absent} beside it, which is not set: set both or neither")
    if isinstance(rank_value, int) and isinstance(size_value, int) and rank_value >= size_value:
        raise SettingError(rank, repr(str(rank_value)), f"a rank below {size}, which is {size_value}")


if __name__ == "__main__":
    print(markdown(), end="")
