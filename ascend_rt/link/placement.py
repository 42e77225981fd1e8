"""Which rank of which job this process is, as whoever started it has put into its environment.

hccl-run tells the address of the job's server (ASCEND_RT_JOB).  Every other launcher only tells a rank, a size and what
distinguishes its job from others; that becomes the name under which the ranks of the job meet (`meeting.py`).  The
first of these that is there counts:

    RANK_ID, RANK_SIZE                           set by hand or by scripts for Ascend    meet by MASTER_PORT
    RANK, WORLD_SIZE                             torchrun                                meet by MASTER_PORT and its run
    OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE   mpirun of Open MPI                      meet by PMIX_NAMESPACE
    PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS          mpiexec of MPICH and Intel MPI          meet by the process of mpiexec
    SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_ID    srun                                    meet by job and step
"""

import os
import socket
from dataclasses import dataclass

from ..settings import Settings
from .errors import JoinError
from .process import ancestor

HYDRA = "hydra_pmi_proxy"  # the process by which mpiexec of MPICH and Intel MPI starts ranks


@dataclass(frozen=True)
class Placement:
    """One rank of a job, by a launcher's word."""

    rank: int
    size: int
    meeting: str
    """what all ranks of this job, and of no other job of this user and host, agree on; empty: nothing is said"""
    missing: str = ""
    """what has to be set where nothing is said"""


def place(settings: Settings) -> Placement | None:
    """This process's place; None if nobody says that it is a rank.

    JoinError (EI0001): a rank outside of its job's size. JoinError (EI0015): the ranks of the job are on several hosts.
    """
    placement = (
        _by_number(settings, settings.rank_id, settings.rank_size, "RANK_SIZE")
        or _by_number(settings, settings.rank, settings.world_size, "WORLD_SIZE")
        or _in_open_mpi(settings)
        or _in_hydra(settings)
        or _in_slurm(settings)
    )
    if placement is not None and placement.rank >= placement.size:
        raise JoinError(f"rank {placement.rank} of a job of {placement.size} ranks; expected less", code="EI0001")
    return placement


def _by_number(settings: Settings, rank: int | None, size: int | None, name: str) -> Placement | None:
    if rank is None or size is None:
        return None
    if size == 1 or settings.ascend_rt_job is not None:
        return Placement(rank, size, "")
    if settings.master_port is None:
        return Placement(rank, size, "", f"{name} is {size}, and MASTER_PORT is not set")
    if settings.local_world_size is not None and settings.world_size == size:
        _check_hosts(rank, size, settings.local_world_size, "LOCAL_WORLD_SIZE")
    elif settings.master_addr is not None and not _is_this_host(settings.master_addr):
        raise _several_hosts(rank, f"MASTER_ADDR {settings.master_addr} is not an address of this host")
    run = (settings.torchelastic_run_id, settings.torchelastic_restart_count)
    return Placement(rank, size, f"port {settings.master_port} run {run}")


def _in_open_mpi(settings: Settings) -> Placement | None:
    rank, size = settings.ompi_comm_world_rank, settings.ompi_comm_world_size
    if rank is None or size is None:
        return None
    _check_hosts(rank, size, settings.ompi_comm_world_local_size, "OMPI_COMM_WORLD_LOCAL_SIZE")
    name = settings.pmix_namespace or f"child of {os.getppid()}"
    return Placement(rank, size, f"mpirun {name}")


def _in_hydra(settings: Settings) -> Placement | None:
    rank, size = settings.pmi_rank, settings.pmi_size
    if rank is None or size is None or settings.mpi_localnranks is None:
        return None
    _check_hosts(rank, size, settings.mpi_localnranks, "MPI_LOCALNRANKS")
    return Placement(rank, size, f"mpiexec {ancestor(HYDRA) or os.getppid()}")


def _in_slurm(settings: Settings) -> Placement | None:
    # A batch script has a SLURM_PROCID too, and is no rank: only processes of a step are.
    rank, size, step = settings.slurm_procid, settings.slurm_ntasks, settings.slurm_step_id
    if rank is None or size is None or step is None:
        return None
    if (settings.slurm_nnodes or 1) > 1:
        raise _several_hosts(rank, f"SLURM_NNODES is {settings.slurm_nnodes}")
    return Placement(rank, size, f"slurm {settings.slurm_job_id} {settings.slurm_restart_count} step {step}")


def _check_hosts(rank: int, size: int, here: int | None, name: str) -> None:
    if here is not None and here < size:
        raise _several_hosts(rank, f"{name} is {here} of {size}")


def _several_hosts(rank: int, why: str) -> JoinError:
    text = (
        f"rank {rank}: the ranks of this job are on several hosts ({why}). They share memory, so start all of them "
        "on one host"
    )
    return JoinError(text, code="EI0015")


def _is_this_host(address: str) -> bool:
    """Whether a socket can be bound to `address`. An unknown name is taken for ours: whoever is elsewhere will be
    missed, and then that is told."""
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return True
    return any(_can_bind(socket.AddressFamily(family), where) for family, _, _, _, where in found)


def _can_bind(family: socket.AddressFamily, where: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(where)
        except OSError:
            return False
        return True
