"""Which rank a process is, by the variables of its launcher."""

import os
from pathlib import Path

import pytest

from ascend_rt.link.errors import JoinError
from ascend_rt.link.placement import Placement, place
from ascend_rt.link.process import ancestor
from ascend_rt.settings import read

pytestmark = pytest.mark.proof

HAND = {"RANK_ID": "1", "RANK_SIZE": "4", "MASTER_PORT": "29500"}
TORCHRUN = {"RANK": "2", "WORLD_SIZE": "4", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "a run"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "848822273"}
HYDRA = {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
HOSTS = {"TORCHELASTIC_RESTART_COUNT": "0", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0"}


def placed(environ: dict[str, str]) -> Placement:
    placement = place(read(environ))
    assert placement is not None
    return placement


def test_nobody_says_anything() -> None:
    assert place(read({})) is None
    assert place(read({"MASTER_PORT": "29500"})) is None


@pytest.mark.parametrize(("environ", "rank"), [(HAND, 1), (TORCHRUN, 2), (OPEN_MPI, 3), (HYDRA, 0), (SLURM, 1)])
def test_each_launcher(environ: dict[str, str], rank: int) -> None:
    placement = placed(environ)
    assert (placement.rank, placement.size, placement.missing) == (rank, 4, "")
    assert placement.meeting


def test_the_innermost_launcher_counts() -> None:
    """A script for Ascend inside torchrun inside mpirun inside srun."""
    everything = {**SLURM, **OPEN_MPI, **TORCHRUN, **HAND}
    for names in (HAND, TORCHRUN, OPEN_MPI, SLURM):
        assert placed(everything) == placed({**names, **(TORCHRUN if "MASTER_PORT" in names else {}), **names})
        everything = {name: text for name, text in everything.items() if name not in names or name == "MASTER_PORT"}


def test_a_batch_script_and_a_foreign_pmi_are_no_ranks() -> None:
    assert place(read({name: text for name, text in SLURM.items() if name != "SLURM_STEP_ID"})) is None
    assert place(read({"PMI_RANK": "0", "PMI_SIZE": "4"})) is None


@pytest.mark.parametrize(("environ", "change"), [
    (HAND, {"MASTER_PORT": "29501"}),
    (TORCHRUN, {"TORCHELASTIC_RUN_ID": "b run"}),
    (TORCHRUN, {"TORCHELASTIC_RESTART_COUNT": "1"}),
    (OPEN_MPI, {"PMIX_NAMESPACE": "848822274"}),
    (SLURM, {"SLURM_JOB_ID": "78"}),
    (SLURM, {"SLURM_STEP_ID": "1"}),
    (SLURM, {"SLURM_RESTART_COUNT": "1"}),
])
def test_what_makes_another_job(environ: dict[str, str], change: dict[str, str]) -> None:
    assert placed(environ).meeting != placed({**environ, **change}).meeting


@pytest.mark.parametrize("environ", [
    {**TORCHRUN, **HOSTS},
    {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
    {**HYDRA, "MPI_LOCALNRANKS": "1"},
    {**SLURM, "SLURM_NNODES": "2"},
    {**HAND, "MASTER_ADDR": "192.0.2.200"},
])
def test_several_hosts_are_refused(environ: dict[str, str]) -> None:
    with pytest.raises(JoinError, match=r"rank \d: the ranks of this job are on several hosts \(.+\)") as raised:
        place(read(environ))
    assert raised.value.code == "EI0015"


def test_this_host_by_its_addresses() -> None:
    for address in ("127.0.0.1", "localhost", "a-name-that-nobody-has.invalid"):
        assert placed({**HAND, "MASTER_ADDR": address}).meeting == placed(HAND).meeting


def test_what_cannot_be() -> None:
    assert placed({"RANK_ID": "0", "RANK_SIZE": "2"}).missing == "RANK_SIZE is 2, and MASTER_PORT is not set"
    with pytest.raises(JoinError, match="rank 4 of a job of 4 ranks"):
        place(read({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "4"}))


def test_ancestors() -> None:
    assert ancestor(Path(f"/proc/{os.getppid()}/comm").read_text().rstrip("\n")) == os.getppid()
    assert ancestor("no such program") is None
