"""Jobs that hccl-run has not started: ranks meet by what their launcher tells, and one of them starts the server."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

Environments = list[Mapping[str, str]]

SUM = (Path(__file__).parent / "programs" / "sum.py").read_text()
# Who takes part, without what makes a rank slow to start.
PIDS = """
from ascend_rt.link.rendezvous import join
from ascend_rt.settings import read
member = join(read())
print([member.segment.rank_line(rank).pid for rank in range(member.size)], member.rank)
"""
# Rank 1 ends by the line in ENDS; the others are then in a collective with it.
DEATH = f"""{SUM}
if comm.rank == 1:
    exec(os.environ["ENDS"])
try:
    comm.all_reduce(x)
except rt.HcclError as error:
    print(error.name, error.ranks, str(error).splitlines()[0], flush=True)
"""
STAY = f"{SUM}\nimport signal\nsignal.pause()\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def by_hand(size: int, port: int, **extra: str) -> Environments:
    common = {"RANK_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **extra}
    return [{"RANK_ID": str(rank), **common} for rank in range(size)]


def torchrun(size: int, port: int, restarts: int) -> Environments:
    common = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "localhost"}
    run = {"MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": str(restarts)}
    return [{"RANK": str(rank), "LOCAL_RANK": str(rank), **common, **run} for rank in range(size)]


def mpirun(size: int, job: int) -> Environments:
    common = {"OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_LOCAL_SIZE": str(size), "PMIX_NAMESPACE": str(job)}
    return [{"OMPI_COMM_WORLD_RANK": str(rank), **common} for rank in range(size)]


def srun(size: int, job: int, step: int) -> Environments:
    common = {"SLURM_NTASKS": str(size), "SLURM_NNODES": "1", "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}
    return [{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), **common} for rank in range(size)]


def mpiexec(size: int) -> Environments:
    common = {"PMI_SIZE": str(size), "MPI_LOCALNRANKS": str(size)}
    return [{"PMI_RANK": str(rank), **common} for rank in range(size)]


def test_jobs_of_all_launchers_at_once(launch: Callable[..., Any], script: Callable[..., Path]) -> None:
    """They never meet, not even those that differ only in port, restart or step."""
    program, port, own = script(PIDS), free_port(), os.getpid()
    jobs: list[Environments] = [
        by_hand(3, port),
        by_hand(2, free_port()),
        torchrun(2, port, 0),
        torchrun(2, port, 1),
        mpirun(2, own),
        mpiexec(2),
        srun(2, own, 0),
        srun(2, own, 1),
    ]
    started = [launch(program, environments) for environments in jobs]
    for job in started:
        pids = [process.pid for process in job.ranks]
        said = [(each.code, each.out, each.err) for each in job.outcomes()]
        assert said == [(0, f"{pids} {rank}\n", "") for rank in range(len(pids))]


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("os.kill(os.getpid(), 9)", "rank 1 died: killed by signal 9 (SIGKILL)"),
        ("os._exit(7)", "rank 1 died: exit code 7"),
        ("raise SystemExit", "rank 1 left (exit code 0) while others waited for it"),
    ],
)
def test_the_end_of_a_rank(launch: Callable[..., Any], script: Callable[..., Path], ends: str, says: str) -> None:
    job = launch(script(DEATH), by_hand(3, free_port(), ENDS=ends))
    outcomes = job.outcomes()
    for rank in (0, 2):
        right, error = outcomes[rank].lines
        assert right == f"right {rank} 3"
        assert error.startswith("HCCL_E_REMOTE (1,) HCCL_E_REMOTE (21): ") and says in error
    assert [each.err for each in outcomes] == ["", "", ""]


def test_without_pidfds(launch: Callable[..., Any], script: Callable[..., Path], tmp_path: Path) -> None:
    """A kernel before 5.3, or a sandbox that refuses them: the server looks whether its ranks are still there."""
    script(
        """
        import os
        from ascend_rt.link import process
        def refuse(pid, flags=0):
            raise OSError(38, "Function not implemented")
        os.pidfd_open = refuse
        process._SO_PEERPIDFD = -1
        """,
        "sitecustomize.py",
    )
    ranks = by_hand(2, free_port(), ENDS="os.kill(os.getpid(), 9)", PYTHONPATH=str(tmp_path))
    outcomes = launch(script(DEATH), ranks).outcomes()
    assert "HCCL_E_REMOTE (1,)" in outcomes[0].lines[1] and "rank 1 died" in outcomes[0].lines[1]


def test_the_server_is_killed(launch: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Ranks in a wait notice it; who leaves a data phase then finds out by itself that a peer is dead."""
    source = f"""{SUM}
if comm.rank == 2:
    import signal
    signal.pause()
try:
    comm.all_reduce(x)
except rt.HcclError as error:
    print(error.name, error.ranks, "that serves this job" in str(error), flush=True)
while comm._membership.segment.rank_line(2).state != 4:
    comm._membership.look()
print(str(comm._membership.segment.rank_line(2).cause))
"""
    job = launch(script(source), by_hand(3, free_port()))
    assert [job.read_line(rank) for rank in range(3)] == [f"right {rank} 3" for rank in range(3)]
    os.kill(job.serving(), signal.SIGKILL)
    assert [job.read_line(rank) for rank in range(2)] == ["HCCL_E_UNAVAIL () True"] * 2
    job.ranks[2].kill()
    assert [each.out for each in job.outcomes()] == [f"{-2**31}\n", f"{-2**31}\n", ""]


def test_the_next_job_at_the_same_port(launch: Callable[..., Any], script: Callable[..., Path]) -> None:
    """It meets none of the first one's ranks, which are still there. Of that rank 0 is killed, and nothing is left."""
    port, stays, program = free_port(), script(STAY, "stays.py"), script(SUM)
    first = launch(stays, by_hand(2, port, NUMBER="1"))
    assert [first.read_line(rank) for rank in range(2)] == ["right 0 2", "right 1 2"]
    second = launch(program, by_hand(2, port, NUMBER="2"))
    assert [each.out for each in second.outcomes()] == ["right 0 2\n", "right 1 2\n"]
    first.ranks[0].kill()
    first.ranks[0].wait()
    assert len(first.processes()) == 2
    first.ranks[1].kill()
    first.outcomes()


def test_ranks_that_never_come_are_named(launch: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Who says to be a rank that waits there already is told so."""
    port, program = free_port(), script(SUM)
    early = by_hand(4, port, HCCL_CONNECT_TIMEOUT="2")
    outcomes = launch(program, [early[0], early[2], early[2]]).outcomes()
    said = [each.err.splitlines()[-1] for each in outcomes]
    refused = [text for text in said if "rank 2 is process" in text]
    waited = [text for text in said if "waited 2 s for the other ranks to join; still missing:" in text]
    assert len(refused) == 1 and len(waited) == 2
    assert "says the same of itself" in refused[0]
    assert all("rank 1, " in text and "rank 3. " in text for text in waited)


def test_a_program_that_a_rank_starts_is_no_rank(launch: Callable[..., Any], script: Callable[..., Path]) -> None:
    source = f"""{SUM}
import subprocess
import sys
done = subprocess.run([sys.executable, sys.argv[0]], capture_output=True, text=True) if comm.rank == 0 else None
comm.barrier()
print("already joined by" in done.stderr if done else "")
"""
    outcomes = launch(script(source), mpirun(2, os.getpid())).outcomes()
    assert [each.lines for each in outcomes] == [["right 0 2", "True"], ["right 1 2", ""]]


def test_by_mpirun_itself(script: Callable[..., Path]) -> None:
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("no mpirun")
    words = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    if subprocess.run([*words, "true"], capture_output=True, timeout=60).returncode != 0:
        pytest.skip("mpirun does not work here")
    done = subprocess.run([*words, sys.executable, script(SUM)], capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout) == sorted("right 0 2\nright 1 2\n")  # mpirun tears lines
