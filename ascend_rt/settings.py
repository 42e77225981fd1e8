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
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from . import setting_pages
from .setting_links import Links as Links
from .setting_links import LinksOf as LinksOf
from .setting_row import (
    AlgorithmsOf,
    AnyCase,
    CacheFolder,
    Choice,
    DeviceIds,
    OwnAlgorithmsOf,
    Setting,
    Switch,
    Text,
    Whole,
    Word,
    shown,
)
from .setting_row import SettingError as SettingError


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
        "Longest wait for the other ranks to join. Less than 120, which CANN refuses, gives a notice.",
        cann=Whole(120, 7200),
    )
    hccl_exec_timeout = Setting(
        "HCCL_EXEC_TIMEOUT", Whole(0), 1836, "system", "s",
        "Longest wait inside a collective; 0 waits for ever.",
    )
    hccl_buffsize = Setting(
        "HCCL_BUFFSIZE", Whole(1, 1 << 20), 200, "system", "MiB",
        "Most device memory that a communicator takes for itself on each rank: staging and scratch as a whole.",
        agree=True,
    )
    hccl_algo = Setting(
        "HCCL_ALGO", AlgorithmsOf(), None, "system", "",
        "Algorithms between servers; without a rank table, among all ranks. What an operator has not falls back.",
        agree=True,
    )
    hccl_deterministic = Setting(
        "HCCL_DETERMINISTIC", AnyCase(("false", "true", "strict")), "false", "system", "",
        "Results are the same bits in every run anyway; strict: also for every algorithm and layout of ranks.",
        agree=True,
    )
    xdg_cache_home = Setting(
        "XDG_CACHE_HOME", CacheFolder(), None, "system", "",
        "In its folder ascend_rt is what hccl-run --tune has measured on this host; ~/.cache when not set.",
    )
    hccl_entry_log_enable = Setting(
        "HCCL_ENTRY_LOG_ENABLE", Switch(), False, "system", "",
        "1: a line in the log for each call of a communicator: which, its arguments, where.",
    )
    ascend_global_log_level = Setting(
        "ASCEND_GLOBAL_LOG_LEVEL", Whole(0, 4), None, "system", "",
        "What is logged: 0 debug, 1 info, 2 warning, 3 error and worse (when a log is kept at all), 4 nothing.",
    )
    ascend_process_log_path = Setting(
        "ASCEND_PROCESS_LOG_PATH", Text("a folder"), None, "system", "",
        "Folder of the log; ~/ascend/log where only another variable asks for a log.",
    )
    ascend_slog_print_to_stdout = Setting(
        "ASCEND_SLOG_PRINT_TO_STDOUT", Switch(), False, "system", "", "1: the log goes to stdout and not to files."
    )
    ascend_log_print_to_stdout = Setting(
        "ASCEND_LOG_PRINT_TO_STDOUT", Switch(), False, "system", "", "The same by its name since CANN 9.2."
    )
    ascend_rt_visible_devices = Setting(
        "ASCEND_RT_VISIBLE_DEVICES", DeviceIds(), None, "system", "",
        "The devices that a program sees; it knows them by their place in the list, from 0.",
    )
    ascend_rt_strict = Setting(
        "ASCEND_RT_STRICT", Switch(), False, "system", "", "1: a value that CANN refuses is an error here too."
    )
    ascend_rt_strict_dtypes = Setting(
        "ASCEND_RT_STRICT_DTYPES", Choice(("0", "1", "910", "910B", "910_93", "950")), "0", "system", "",
        "Refuse the dtypes and reduce operations that this device refuses; 1: as 910B (Atlas A2).",
        agree=True,
    )

    ascend_rt_stale_kernels = Setting(
        "ASCEND_RT_STALE_KERNELS", Choice(("tell", "refuse")), "tell", "system", "",
        "What happens to an .om with a kernel whose text is another one than when it was compiled: a line on stderr, "
        "or an error.",
    )

    ascend_rt_link = Setting(
        "ASCEND_RT_LINK", LinksOf(), None, "system", "",
        "Emulated links: reading from and writing to another rank takes the time that such a link would need.",
        agree=True,
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
    ascend_rt_algo = Setting(
        "ASCEND_RT_ALGO", OwnAlgorithmsOf(), None, "debug", "",
        "Which algorithm carries out a collective, whatever HCCL_ALGO says; docs/algorithms.md has the names.",
        agree=True,
    )
    ascend_rt_packet_bytes = Setting(
        "ASCEND_RT_PACKET_BYTES", Whole(0, 4096), 1024, "debug", "bytes",
        "Calls to which a rank brings no more are carried out in one round, without a plan.",
        agree=True,
    )
    ascend_rt_piece_kib = Setting(
        "ASCEND_RT_PIECE_KIB", Whole(1, 1 << 20), 512, "debug", "KiB",
        "Arrays outside of device memory go through it in pieces of this size; HCCL_BUFFSIZE may make them smaller.",
        agree=True,
    )
    ascend_rt_reach_kib = Setting(
        "ASCEND_RT_REACH_KIB", Whole(0, 1 << 20), 64, "debug", "KiB",
        "From this size on, arrays outside of device memory are reached where they lie, through the kernel "
        "(process_vm_readv), if it lets every rank do so; smaller ones, and all if 0, go through device memory.",
    )
    ascend_rt_kernels = Setting(
        "ASCEND_RT_KERNELS", Choice(("auto", "plain", "avx2", "avx512", "neon")), "auto", "debug", "",
        "Which reduction kernels run: auto takes the fastest this processor has. All give the same bits.",
    )

    def with_config(self, fields: Mapping[str, object]) -> "Settings":
        """These settings, but for the fields of a communicator's configuration, by their names in HcclCommConfig: a
        field beats the environment. SettingError (EI0016) for a value that its variable would not take, KeyError for a
        field that stands for no variable (CONFIG_FIELDS has those that do)."""
        values = dict(self.values)
        for field, value in fields.items():
            row = next(row for row in table() if row.name == CONFIG_FIELDS[field])
            text = DETERMINISTIC.get(value, value) if row.name == "HCCL_DETERMINISTIC" else value
            values[row.name] = row.parse({row.name: str(text)}, field)
        return Settings(MappingProxyType(values))

    def with_link(self, text: str) -> "Settings":
        """These settings with other emulated links; SettingError (EI0016) if ASCEND_RT_LINK would not take the text."""
        row = type(self).ascend_rt_link
        return Settings(MappingProxyType({**self.values, row.name: row.parse({row.name: text}, "link")}))

    def to_agree_on(self) -> dict[str, str]:
        """The values that must be the same on all ranks of a communicator, as they are written, by name."""
        return {row.name: shown(self.values[row.name]) for row in table() if row.agree}

    def __repr__(self) -> str:
        given = [row.name for row in table() if self.values[row.name] != row.default]
        return f"Settings({', '.join(f'{name}={shown(self.values[name])}' for name in given)})"


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
CONFIG_FIELDS = {
    "hcclBufferSize": "HCCL_BUFFSIZE",
    "hcclDeterministic": "HCCL_DETERMINISTIC",
    "hcclExecTimeOut": "HCCL_EXEC_TIMEOUT",
    "hcclAlgo": "HCCL_ALGO",
}
"""Variables by the field of HcclCommConfig that beats them."""
DETERMINISTIC: Mapping[object, str] = {0: "false", 1: "true", 2: "strict"}
"""HCCL_DETERMINISTIC by the numbers of HcclConfigValue."""


def table() -> tuple[Setting[object], ...]:
    """All rows, in the order they are declared."""
    return tuple(row for row in vars(Settings).values() if isinstance(row, Setting))


def environment() -> dict[str, str]:
    """A copy of the environment of this process, to be composed into a child's."""
    return dict(os.environ)


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Parses every row from `environ` (default: the environment of this process).

    Raises SettingError for a value that does not parse, a rank outside its size, half of a pair, and an ASCEND_RT_ name
    that is none of ours; with ASCEND_RT_STRICT=1 also for a value that CANN would refuse.
    """
    settings, error = examine(environ)
    if error is not None:
        raise error
    return settings


def examine(environ: Mapping[str, str] | None = None) -> tuple[Settings, SettingError | None]:
    """`read` for who has to go on: what is wrong stands there with its default, and the first error beside it."""
    environ = os.environ if environ is None else environ
    errors = [wrong for name in sorted(environ) if (wrong := _misspelt(name))]
    strict = environ.get("ASCEND_RT_STRICT") == "1"
    values: dict[str, object] = {}
    for row in table():
        try:
            values[row.name] = row.parse_as_cann(environ) if strict else row.parse(environ)
        except SettingError as error:
            values[row.name] = row.default
            errors.append(error)
    if not errors:
        errors = [wrong for rank, size in PAIRS if (wrong := _half(rank, size, values[rank], values[size]))]
    return Settings(MappingProxyType(values)), errors[0] if errors else None


def says_who(name: str) -> bool:
    """Whether a variable is among those that say which rank of which job a process is."""
    return name in JOB or any(row.name == name and row.kind == "launcher" for row in table())


def notices(environ: Mapping[str, str] | None = None) -> list[str]:
    """A sentence for each value that is right here, and that CANN would refuse."""
    environ = os.environ if environ is None else environ
    return [notice for row in table() if (notice := row.notice(environ))]


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
    return setting_pages.help_text(table())


def markdown() -> str:
    """docs/settings.md, whole."""
    return setting_pages.markdown(table())


def _misspelt(name: str) -> SettingError | None:
    known = [row.name for row in table()]
    if not name.startswith(PREFIX) or name in known:
        return None
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"{near[0]} perhaps" if near else "a name that hccl-run --help-env lists"
    return SettingError(name, "set but not known", hint)


def _half(rank: str, size: str, rank_value: object, size_value: object) -> SettingError | None:
    if (rank_value is None) != (size_value is None):
        given, absent = (rank, size) if size_value is None else (size, rank)
        value = rank_value if size_value is None else size_value
        return SettingError(given, repr(str(value)), f"{absent} beside it, which is not set: set both or neither")
    if isinstance(rank_value, int) and isinstance(size_value, int) and rank_value >= size_value:
        return SettingError(rank, repr(str(rank_value)), f"a rank below {size}, which is {size_value}")
    return None


if __name__ == "__main__":
    print(markdown(), end="")
