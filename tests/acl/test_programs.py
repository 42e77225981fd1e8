"""hccl-run --acl: programs as pyACL users write them run unmodified."""

import re
from pathlib import Path

import pytest

from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).parent / "programs"
DEVICE = re.compile(r"device (\d): (\d+) of (\d+) MiB free, 2048 streams, peers \[([\d, ]*)\]")


@pytest.mark.parametrize("options, devices", [("-n 1", 1), ("-n 1 --devices 3", 3), ("-n 2", 2)])
def test_device_query(ranks: RankPool, options: str, devices: int) -> None:
    program = str(PROGRAMS / "device_query.py")
    ended = ranks.hccl_run([*options.split(), "--no-prefix", "--acl", "--hbm", "64M", program])
    assert ended.exit_code == 0, ended.stderr
    lines = ended.stdout.splitlines()
    of_ranks = 2 if options == "-n 2" else 1
    title = f"ACL 1.0.0, Ascend910B1, {devices} devices, this program runs on the host"
    assert lines.count(title) == of_ranks
    found = sorted(DEVICE.fullmatch(line).groups() for line in lines if line != title)  # type: ignore[union-attr]
    peers = [", ".join(str(peer) for peer in range(devices) if peer != index) for index in range(devices)]
    expected = [(str(index), "64", "64", peers[index]) for index in range(devices) for _ in range(of_ranks)]
    assert found == expected


def means() -> list[str]:
    return [f"frame {number}: mean {2 * (7.5 + 10 * number) + 1:g}" for number in range(12)]


def test_two_stream_pipeline(ranks: RankPool) -> None:
    ended = ranks.hccl_run(["-n", "1", "--no-prefix", "--acl", str(PROGRAMS / "two_stream_pipeline.py")])
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == means()


def test_two_stream_pipeline_of_each_rank_on_another_ranks_device(ranks: RankPool) -> None:
    ended = ranks.hccl_run(["-n", "2", "--acl", str(PROGRAMS / "two_stream_pipeline.py"), "1"])
    assert (ended.exit_code, ended.stderr) == (0, "")
    for rank in range(2):
        assert [line for line in ended.stdout.splitlines() if line.startswith(f"[{rank}]")] == [
            f"[{rank}] {line}" for line in means()
        ]


def test_multi_device_copy(ranks: RankPool) -> None:
    program = str(PROGRAMS / "multi_device_copy.py")
    ended = ranks.hccl_run(["-n", "1", "--devices", "4", "--no-prefix", "--acl", program])
    assert (ended.exit_code, ended.stdout) == (0, "400012 bytes over 4 devices: right\n"), ended.stderr
    alone = ranks.hccl_run(["-n", "1", "--no-prefix", "--acl", program])
    assert (alone.exit_code, alone.stdout) == (1, "this program copies between devices, and there is 1\n")


# ---- what `import acl` means ----

IMPORTS = """
import acl
import acl.rt
from acl.util import numpy_to_ptr
import ascend_rt.acl
print(acl is ascend_rt.acl, acl.rt is ascend_rt.acl.rt, numpy_to_ptr is ascend_rt.acl.util.numpy_to_ptr)
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "import acl; print(acl.__name__)"], capture_output=True, text=True).stdout)
"""


@pytest.mark.parametrize("how", ["forked", "executed"])
def test_import_acl(ranks: RankPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(IMPORTS)
    extra = [] if how == "forked" else ["--env", "PYTHONDONTWRITEBYTECODE=1"]
    ended = ranks.hccl_run(["-n", "1", "--no-prefix", "--acl", *extra, str(program)])
    assert ended.stdout.split() == ["True", "True", "True", "ascend_rt.acl"], ended.stderr


def test_without_the_option_there_is_no_acl(ranks: RankPool, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import acl")
    ended = ranks.hccl_run(["-n", "1", str(program)])
    assert ended.exit_code == 1 and "No module named 'acl'" in ended.stderr


def test_fewer_devices_than_ranks_are_refused(ranks: RankPool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("")
    ended = ranks.hccl_run(["-n", "3", "--devices", "2", str(tmp_path / "program.py")])
    assert ended.exit_code == 2
    assert "ASCEND_RT_DEVICES is 2; expected at least 3 devices, one for each rank" in ended.stderr
