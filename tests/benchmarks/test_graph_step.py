"""graph_step.py: one line of JSON, and the same bits on all sides."""

import json
import subprocess
import sys
from pathlib import Path

import graph_step
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "graph_step.py"
HCCL_RUN = str(Path(sys.executable).with_name("hccl-run"))
TIMES = ["eager_ms", "captured_ms", "hand_ms", "optimised_ms", "predicted_ms"]
BYTES = ["peak_bytes", "bound_bytes", "no_reuse_bytes"]


@pytest.mark.processes
@pytest.mark.thorough
def test_one_line_of_json() -> None:
    command = [HCCL_RUN, "-n", "2", "--no-prefix", str(SCRIPT), "--json", "--rounds", "2", "--rows", "320"]
    job = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert job.returncode == 0, job.stderr
    [line] = [json.loads(line) for line in job.stdout.splitlines()]
    assert list(line) == ["ranks", *TIMES, "bits_equal", *BYTES]
    assert line["ranks"] == 2 and line["bits_equal"] is True
    assert min(line[name] for name in TIMES) > graph_step.LINK_MS
    assert line["eager_ms"] > graph_step.LAYERS * graph_step.LINK_MS
    assert line["bound_bytes"] <= line["peak_bytes"] <= 0.6 * line["no_reuse_bytes"]
    assert "communication is" in job.stderr


@pytest.mark.proof
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_gradient_takes_the_link_as_long_for_any_number_of_ranks(ranks: int) -> None:
    rate, latency = graph_step.link_of(ranks).removesuffix("us").split("B/s,")
    carried = 2 * graph_step.WIDTH**2 * 4 / ranks
    assert carried / float(rate) * 1e3 + float(latency) / 1e3 == pytest.approx(graph_step.LINK_MS, rel=1e-6)
