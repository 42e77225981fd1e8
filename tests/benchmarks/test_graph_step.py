"""graph_step.py: one line of JSON, and the same bits on all sides."""

import json
import subprocess
import sys
from pathlib import Path

import graph_step
import pytest

from ascend_rt.settings import LinksOf

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "graph_step.py"
HCCL_RUN = str(Path(sys.executable).with_name("hccl-run"))
TIMES = ["eager_ms", "captured_ms", "hand_ms", "optimised_ms", "predicted_ms"]
BYTES = ["peak_bytes", "bound_bytes", "no_reuse_bytes"]


@pytest.mark.processes
@pytest.mark.thorough
@pytest.mark.parametrize("options", ["--rows 320", "--step gpt --rows 4", "--step small --no-link"])
def test_one_line_of_json(options: str) -> None:
    command = [HCCL_RUN, "-n", "2", "--no-prefix", str(SCRIPT), "--json", "--rounds", "2", *options.split()]
    job = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert job.returncode == 0, job.stderr
    [line] = [json.loads(line) for line in job.stdout.splitlines()]
    assert list(line) == ["ranks", *TIMES, "bits_equal", *BYTES]
    assert line["ranks"] == 2 and line["bits_equal"] is True
    assert min(line[name] for name in TIMES) > 0
    assert "--no-link" in options or line["eager_ms"] > graph_step.LINK_MS
    assert line["bound_bytes"] <= line["peak_bytes"] <= 0.6 * line["no_reuse_bytes"]
    assert "communication / eager: " in job.stderr and "awake: " in job.stderr


@pytest.mark.proof
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_gradients_take_the_link_as_long_for_any_number_of_ranks(ranks: int) -> None:
    rate, latency = graph_step.link_of_layers(ranks).removesuffix("us").split("B/s,")
    carried = 2 * graph_step.WIDTH**2 * 4 / ranks
    one_ms = carried / float(rate) * 1e3 + float(latency) / 1e3
    assert graph_step.LAYERS * one_ms == pytest.approx(graph_step.LINK_MS, rel=1e-6)


@pytest.mark.proof
def test_the_ranks_of_a_gpt_are_nearer_than_its_copies() -> None:
    links = LinksOf()(graph_step.link_of_gpt(4))
    far, *near = [links.between(*pair).bytes_per_second for pair in ((0, 2), (0, 1), (2, 3))]
    assert near == [graph_step.NEAR * far] * 2


@pytest.mark.proof
def test_ratios_are_of_one_round_each() -> None:
    times = {"kernels": [6.0, 12.0, 5.0], "eager": [10.0, 24.0, 9.0]}
    assert graph_step.ratio(times, "kernels", "eager") == 5 / 9
    assert graph_step.share_of(times) == 1 - 5 / 9


@pytest.mark.proof
def test_samples_are_more_where_communication_is_more_than_its_share() -> None:
    kind = graph_step.KINDS["gpt"]
    assert graph_step.nearer(kind, 30, 0.4) == 30
    assert graph_step.nearer(kind, 30, 0.5) == 45  # 30 of kernels, 30 of communication: 45 to 30
    assert graph_step.nearer(graph_step.KINDS["layers"], 100, 0.5) == 144  # a multiple of 16
