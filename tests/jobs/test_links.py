"""Emulated links as a job says them: on hccl-run's command line, in rt.init, not the same on all ranks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

JOINS = """
import os, ascend_rt as rt
try:
    comm = rt.init(link={link})
    print("world", comm._settings.ascend_rt_link)
    rt.init(), rt.init(link={again!r})
except (ValueError, rt.HcclError) as error:
    print(str(error).splitlines()[0])
"""


@pytest.mark.parametrize("link, again, told", [
    ("'1GB/s,2us'", "1000MB/s,2us", ["world 1GB/s,2us"] * 2),
    ("'1GB/s,2us'", "1GB/s,3us", ["rt.init(link='1GB/s,3us'): the world has been made, with 1GB/s,2us",
                                   "world 1GB/s,2us"]),
    ("'1GB'", "", ["EI0016: link, which stands for ASCEND_RT_LINK, is '1GB'; expected RATE,LATENCY"]),
    ("'0-2:1GB/s,2us'", "", ["link=0-2:1GB/s,2us names rank 2; the job has 2 ranks"]),
    ("os.environ['RANK_ID'] + '1GB/s,2us'", "", ["EI0016", "ASCEND_RT_LINK=1GB/s,2us", "ASCEND_RT_LINK=11GB/s,2us"]),
])
def test_a_program_sets_its_links(
    ranks: RankPool, script: Callable[..., Path], link: str, again: str, told: list[str]
) -> None:
    ended = ranks.hccl_run(["-n", "2", "--no-prefix", str(script(JOINS.format(link=link, again=again)))])
    for line in told:
        assert line in ended.stdout


def test_hccl_run_sets_the_links_of_a_job(ranks: RankPool, script: Callable[..., Path]) -> None:
    program = str(script("import ascend_rt as rt; print(rt.init()._settings.ascend_rt_link)"))
    ended = ranks.hccl_run(["-n", "2", "--link", "2GB/s,5us;0-1:1GB/s,0ns", "--no-prefix", program])
    assert ended.stdout.splitlines() == ["2GB/s,5us;0-1:1GB/s,0ns"] * 2, ended


@pytest.mark.parametrize("link, told", [
    ("2GB", "environment variable ASCEND_RT_LINK is '2GB'; expected RATE,LATENCY"),
    ("0-2:2GB/s,1us", "names rank 2; the job has 2 ranks"),
])
def test_hccl_run_refuses_links_that_cannot_be(
    ranks: RankPool, script: Callable[..., Path], link: str, told: str
) -> None:
    ended = ranks.hccl_run(["-n", "2", "--link", link, str(script(""))])
    assert ended.exit_code == 2
    assert told in ended.stderr
