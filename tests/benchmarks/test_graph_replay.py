"""The stopwatch on replays says one line, of every graph that it measures."""

import json
from pathlib import Path

import pytest

from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "graph_replay.py"


def test_it_prints_one_line_of_json(ranks: RankPool) -> None:
    ended = ranks.hccl_run(["-n", "2", "--no-prefix", str(SCRIPT), "--nodes", "48", "--rounds", "2"])
    assert ended.exit_code == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["ranks"], report["nodes"]) == (2, 48)
    for name in ("memory", "streams", "collectives"):
        assert all(report[name][key] > 0 for key in ("us_per_node", "eager_us_per_node", "launch_us"))
