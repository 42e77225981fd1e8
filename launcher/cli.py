"""hccl-run: starts a program on N ranks, watches it and explains how it ended.

hccl-run [options] script.py [arguments]
hccl-run [options] -m module [arguments]
hccl-run [options] -- program [arguments]
"""

import argparse
import importlib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from .. import settings
from ..link.devices import host_devices
from ..link.limits import usable_cpus
from . import arguments, tune
from .program import Program

# A variable that the interpreter, the loader or a BLAS reads when it starts: a fork of this process would not heed it.
READ_AT_START = re.compile(r"PYTHON|LD_|OMP_|KMP_|GOMP_|OPENBLAS_|GOTO_|MKL_|BLIS_|NUMEXPR_")
# How many threads a BLAS takes: its own variable before the general one.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
ONE_THREAD = dict.fromkeys(BLAS_THREADS, "1")
# Folders in which `import acl` and `import hccl` find what leads to ascend_rt.acl and ascend_rt.hccl.
CANN_NAMES = [str(Path(__file__).parents[1] / folder) for folder in ("ge/pyacl", "hccl/pyhccl")]
USAGE_ERROR, CANNOT_START, NOT_FOUND = 2, 1, 127


def main() -> int:
    """The entry point of hccl-run; its exit code is the job's. Forked ranks return from here as well, with theirs."""
    _open_streams()
    words, program = arguments.split(sys.argv[1:])
    given = arguments.parser().parse_args(words)
    if given.help_env:
        print(settings.help_text(), end="")
        return 0
    if given.tune is not None:
        if program is not None:
            _refuse(f"--tune takes no program, such as {program.name!r}; --tune=4 measures 2 and 4 ranks")
        return tune.tune(given.tune)
    if program is None:
        _refuse("which program? hccl-run [options] script.py | -m module | -- program  [arguments]")
    _check(program)
    _make_log_folder(given.log_dir)
    outer = settings.environment()
    forkable = program.kind != "command" and not any(READ_AT_START.match(name) for name, _ in given.env)
    return _run(program, given, _environment(outer, given), forkable and _warm_up(outer))


def _run(program: Program, given: argparse.Namespace, environ: dict[str, str], forked: bool) -> int:
    # Only now: they import NumPy, whose threads _warm_up has to choose first.
    from ..link.segment import JobMemoryError
    from .job import Job
    from .start import JobOptions, StartError

    options = JobOptions(
        ranks=given.n,
        program=program,
        environ=environ if forked else {"PYTHONUNBUFFERED": "1", **environ},
        forked=forked,
        threads=blas_threads(environ),
        grace=given.grace,
        timeout=given.timeout,
        hbm=given.hbm,
        devices=host_devices(settings.read(environ), given.n),
        prefixed=not given.no_prefix,
        log_folder=given.log_dir,
    )
    try:
        job = Job(options)
        rank = job.start()
    except (JobMemoryError, StartError) as error:
        _refuse(str(error), CANNOT_START)
    if rank is None:
        return job.watch()
    return rank.run() if forked else rank.execute()


def _open_streams() -> None:
    """A pipe of ours must not become the stdin, stdout or stderr that hccl-run was started without."""
    for stream in (0, 1, 2):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def _check(program: Program) -> None:
    """Say once what every rank would say."""
    if program.kind == "script" and not Path(program.name).exists():
        _refuse(f"can't open file {program.name!r}: there is no such file")
    if program.kind == "command" and shutil.which(program.name) is None:
        _refuse(f"cannot find the program {program.name!r}", NOT_FOUND)


def _make_log_folder(folder: Path | None) -> None:
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _refuse(f"--log-dir {folder}: {error.strerror}")


def _environment(outer: Mapping[str, str], given: argparse.Namespace) -> dict[str, str]:
    """What all ranks find, without what differs from rank to rank; refuses a setting that does not parse."""
    environ = {**settings.without_job(outer), **dict(given.env)}
    environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cpus() // given.n)))
    if given.devices is not None:
        environ["ASCEND_RT_DEVICES"] = str(given.devices)
    if given.link is not None:
        environ["ASCEND_RT_LINK"] = given.link
    if given.acl:
        environ["PYTHONPATH"] = os.pathsep.join([*CANN_NAMES, *environ.get("PYTHONPATH", "").split(os.pathsep)])
    try:
        read = settings.read(environ)
        host_devices(read, given.n)
    except settings.SettingError as error:
        _refuse(str(error))
    links = read.ascend_rt_link
    if links is not None and links.highest_rank() >= given.n:
        _refuse(f"--link {links} names rank {links.highest_rank()}; the job has {given.n} ranks")
    return environ


def blas_threads(environ: Mapping[str, str]) -> int:
    """The threads that a BLAS loaded in `environ` would take; 1 where no variable says a number."""
    # A list, as in OMP_NUM_THREADS=4,2, is for nested regions; ours is the outermost.
    given = (environ.get(name, "").split(",")[0].strip() for name in BLAS_THREADS)
    return next((int(text) for text in given if text.isdecimal() and int(text) > 0), 1)


def _warm_up(outer: Mapping[str, str]) -> bool:
    """Import what ranks need, with one BLAS thread; whether this process has but one thread now, and can be forked."""
    settings.adopt({**outer, **ONE_THREAD})
    importlib.import_module("numpy.random")
    importlib.import_module("ascend_rt.hccl")
    settings.adopt(outer)
    return len(list(Path("/proc/self/task").iterdir())) == 1


def _refuse(text: str, code: int = USAGE_ERROR) -> NoReturn:
    print(f"hccl-run: {text}", file=sys.stderr)
    raise SystemExit(code)
