"""The GPT's slopes are those of its loss, and its curve does not depend on how the ranks share the work."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.examples import train_gpt
from ascend_rt.examples.gpt import GPT, Grid, Size, parameters
from ascend_rt.testing import RankPool

HCCL_RUN = str(Path(sys.executable).with_name("hccl-run"))
SMALL = Size(vocabulary=128, tokens=5, width=8, heads=2, blocks=2)


def model_of(comm: rt.Communicator, tensor: int, dtype: str) -> GPT:
    grid = Grid.of(comm, tensor)
    return GPT(grid, rt.Stream(), train_gpt.BATCH // grid.data.size, SMALL, seed=3, dtype=dtype)


def curve(comm: rt.Communicator, tensor: int, dtype: str, way: str) -> tuple[list[float], bytes]:
    """The losses of six steps, and the weights behind them."""
    model = model_of(comm, tensor, dtype)
    step = train_gpt.step_of(model, comm, way)
    steps = train_gpt.batches(train_gpt.load()[0], 6, seed=4, tokens=SMALL.tokens)
    losses = list(train_gpt.train(model, steps, step))
    return losses, b"".join(x.tobytes() for x in model.weights.values())


def curves(comm: rt.Communicator, tensor: int) -> dict[tuple[str, str], tuple[list[float], bytes]]:
    ways = [("float64", "eager"), ("float32", "eager"), ("float32", "graph")]
    ways += [("float32", "optimise")] * (tensor == 2)  # planned in as many seconds as ranks share the cores
    return {way: curve(comm, tensor, *way) for way in ways}


Curves = dict[tuple[int, int], list[dict[tuple[str, str], tuple[list[float], bytes]]]]


@pytest.fixture(scope="module")
def by_grid(ranks: RankPool) -> Curves:
    """By (models, ranks of a model), what each rank has found."""
    return {(n // tensor, tensor): ranks.run(n, curves, tensor) for n, tensor in ((1, 1), (2, 1), (2, 2), (4, 2))}


@pytest.mark.processes
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-4)])
def test_the_curve_does_not_depend_on_the_grid(by_grid: Curves, dtype: str, tolerance: float) -> None:
    one = by_grid[1, 1][0][dtype, "eager"][0]
    assert 4.5 < one[0] < 6 and one[-1] < one[0] - 0.3  # from about log(128)
    for found in by_grid.values():
        for rank in found:
            assert rank[dtype, "eager"][0] == found[0][dtype, "eager"][0]
            np.testing.assert_allclose(rank[dtype, "eager"][0], one, rtol=tolerance)


@pytest.mark.processes
@pytest.mark.parametrize("way", ["graph", "optimise"])
def test_a_captured_step_has_the_bits_of_an_eager_one(by_grid: Curves, way: str) -> None:
    having = [rank for found in by_grid.values() for rank in found if ("float32", way) in rank]
    assert having
    for rank in having:
        assert rank["float32", way] == rank["float32", "eager"]


@pytest.mark.processes
def test_models_are_equal_bit_for_bit(by_grid: Curves) -> None:
    for (models, tensor), found in by_grid.items():
        weights = [rank["float32", "eager"][1] for rank in found]
        assert weights == weights[:tensor] * models
        assert len(set(weights)) == tensor


def slopes(comm: rt.Communicator) -> list[tuple[str, float, float]]:
    """Of every parameter: its gradient along a random direction, and the central difference of the loss."""
    model = model_of(comm, 1, "float64")
    random = np.random.default_rng(11)
    train_gpt.fill(model, next(train_gpt.batches(train_gpt.load()[0], 1, tokens=SMALL.tokens)))
    for weight in model.weights.values():
        weight += random.normal(0, 0.2, weight.shape)  # gains and biases too are something
    model.step(rate=0)
    model.stream.synchronize()
    found = []
    for name, weight in model.weights.items():
        direction, losses, at = random.normal(size=weight.shape), [], weight.copy()
        expected = float((model.gradients[name] * direction).sum())
        for sign in (1, -1):
            weight[...] = at + sign * 1e-5 * direction
            model.step(rate=0)
            model.stream.synchronize()
            losses.append(float(model.loss[0]))
        weight[...] = at
        model.step(rate=0)
        model.stream.synchronize()
        found.append((name, expected, (losses[0] - losses[1]) / 2e-5))
    return found


@pytest.mark.processes
def test_the_gradients_are_the_slopes_of_the_loss(ranks: RankPool) -> None:
    [found] = ranks.run(1, slopes)
    assert [name for name, _, _ in found] == [*reversed(parameters(SMALL))]
    for name, gradient, difference in found:
        assert gradient == pytest.approx(difference, rel=1e-6, abs=1e-9), name
        assert abs(gradient) > 1e-6, name


def run(*arguments: str) -> Any:
    return subprocess.run([HCCL_RUN, "--no-prefix", *arguments], capture_output=True, text=True, timeout=60)


def losses_printed(job: Any) -> list[float]:
    assert job.returncode == 0, job.stderr
    *_, speed, accuracy = job.stdout.splitlines()
    assert re.fullmatch(r"[1-9]\d* tokens/s", speed)
    match = re.fullmatch(r"accuracy (\d+\.\d) %", accuracy)
    assert match and 10 < float(match[1]) < 90
    return [float(loss) for loss in re.findall(r"^step +\d+ loss (.*)$", job.stdout, re.MULTILINE)]


@pytest.mark.processes
def test_the_program_prints_how_the_loss_falls_and_accuracy_last() -> None:
    first, last = losses_printed(run("-n", "2", "-m", "ascend_rt.examples.train_gpt", "--tensor", "2", "--steps", "12"))
    assert first > 4.5 and last < 4


@pytest.mark.processes
@pytest.mark.thorough
@pytest.mark.parametrize("options", ["1", "2", "4", "4 --graph", "4 --optimise", "4 --tensor 4", "4 --tensor 1"])
def test_a_whole_run(options: str) -> None:
    size, *rest = options.split()
    losses = losses_printed(run("-n", size, "-m", "ascend_rt.examples.train_gpt", *rest))
    assert len(losses) == 5 and losses == sorted(losses, reverse=True) and losses[-1] < 2.5


@pytest.mark.processes
@pytest.mark.thorough
def test_ranks_that_cannot_share_the_work_are_refused_once() -> None:
    job = run("-n", "3", "-m", "ascend_rt.examples.train_gpt", "--tensor", "3")
    assert job.returncode == 1
    said = "train_gpt: 3 ranks, 3 of them to a model: the ranks of a model share its 4 heads equally"
    assert [line.startswith(said) for line in job.stderr.splitlines()].count(True) == 1


@pytest.mark.proof
def test_the_text_to_test_with_follows_that_to_train_on() -> None:
    training, test = train_gpt.load()
    assert len(training) > 9 * len(test) - 10 > 100_000
    assert training.dtype == np.int64 and min(training.min(), test.min()) >= 0 and max(training.max(), test.max()) < 128
    [batch] = train_gpt.batches(test, 1)
    assert (batch.tokens[:, 1:] == batch.targets[:, :-1]).all()
