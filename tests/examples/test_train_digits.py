"""Data-parallel training is training: same curve as one process, same weights on every rank, digits read correctly."""

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ascend_rt.examples import train_digits
from ascend_rt.examples.train_digits import BATCH, CLASSES, LOSS_SCALE, SHAPES, SIZE, Layers

HCCL_RUN = str(Path(sys.executable).with_name("hccl-run"))
JOB = str(Path(__file__).with_name("digits_job.py"))
EPOCHS = 10
STEPS_PER_EPOCH = 12


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


Trained = Callable[..., dict[str, NDArray[np.float32]]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """What a job of so many ranks ends with: weights and losses, one row per rank; each job runs once."""

    @functools.cache
    def outcome(size: int, way: str = "stream") -> dict[str, NDArray[np.float32]]:
        path = tmp_path_factory.mktemp("digits") / "outcome.npz"
        job = run(HCCL_RUN, "-n", str(size), JOB, str(EPOCHS), str(path), way)
        assert job.returncode == 0, job.stderr
        with np.load(path) as file:
            return dict(file)

    return outcome


@pytest.mark.processes
def test_the_ranks_weights_are_equal_bit_for_bit(trained: Trained) -> None:
    weights = trained(4)["weights"]
    assert weights.shape == (4, SIZE) and np.isfinite(weights).all() and weights.std() > 0.01
    bits = weights.view(np.uint32)
    assert (bits == bits[0]).all()


@pytest.mark.processes
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_communication_stream_changes_no_bit(size: int, trained: Trained) -> None:
    streamed, blocking = trained(size), trained(size, "blocking")
    assert (streamed["weights"].view(np.uint32) == blocking["weights"].view(np.uint32)).all()
    assert (streamed["losses"] == blocking["losses"]).all()


@pytest.mark.processes
@pytest.mark.parametrize("size", [2, 4])
def test_the_loss_curve_is_that_of_one_process(size: int, trained: Trained) -> None:
    one, curves = trained(1)["losses"][0], trained(size)["losses"]
    assert one.shape == (EPOCHS * STEPS_PER_EPOCH,)
    assert (curves == curves[0]).all()
    # Gradients are rounded to fp16 (relative error 2**-11) on each rank before they are averaged.  Over one epoch the
    # curves stay as close as that; later steps amplify the difference, which stays small beside a loss of 2.5 to 0.01.
    first = slice(STEPS_PER_EPOCH)
    np.testing.assert_allclose(curves[0][first], one[first], rtol=2**-11)
    np.testing.assert_allclose(curves[0], one, atol=0.01)
    assert one[0] > 2 and one[-STEPS_PER_EPOCH:].mean() < 0.1


@pytest.mark.processes
def test_the_program_prints_speed_and_accuracy_last() -> None:
    job = run(HCCL_RUN, "-n", "4", "--no-prefix", "-m", "ascend_rt.examples.train_digits")
    assert job.returncode == 0, job.stderr
    *_, speed, accuracy = job.stdout.splitlines()
    assert re.fullmatch(r"[1-9]\d* samples/s", speed)
    match = re.fullmatch(r"accuracy (\d+\.\d) %", accuracy)
    assert match and float(match[1]) >= 97
    assert "\x1b" not in job.stdout + job.stderr  # no progress bar where there is no terminal


@pytest.mark.processes
def test_it_runs_without_hccl_run() -> None:
    job = run(sys.executable, "-P", "-m", "ascend_rt.examples.train_digits")
    assert job.returncode == 0, job.stderr
    assert re.fullmatch(r"accuracy 9[78]\.\d %", job.stdout.splitlines()[-1])


@pytest.mark.processes
def test_a_batch_that_the_ranks_cannot_share_is_refused_once() -> None:
    job = run(HCCL_RUN, "-n", "7", "-m", "ascend_rt.examples.train_digits")
    assert job.returncode == 1
    said = f"a batch of {BATCH} samples cannot be shared equally by 7 ranks; use 1, 2, 3, 4, 5, 6, 8, 10,"
    assert [line[:4] for line in job.stderr.splitlines() if said in line and line.startswith("[")] == ["[0] "]


@pytest.mark.proof
def test_the_test_set_is_a_fifth_of_each_digit_and_apart_from_the_training_set() -> None:
    training, test = train_digits.load()
    counts = np.bincount(np.concatenate([training.labels, test.labels]))
    assert counts.sum() == 1797
    assert (np.bincount(test.labels) == counts // 5).all()
    assert training.images.dtype == np.float32 and (training.images.min(), training.images.max()) == (0, 1)
    assert not {image.tobytes() for image in training.images} & {image.tobytes() for image in test.images}


@pytest.mark.proof
def test_every_epoch_takes_each_sample_at_most_once() -> None:
    training, _ = train_digits.load()
    steps = list(train_digits.batches(training, 3))
    assert len(steps) == 3 * STEPS_PER_EPOCH
    for epoch in range(3):
        taken = np.concatenate(steps[epoch * STEPS_PER_EPOCH : (epoch + 1) * STEPS_PER_EPOCH])
        assert len(set(taken.tolist())) == len(taken) == STEPS_PER_EPOCH * BATCH


@pytest.mark.proof
def test_the_gradients_are_the_slopes_of_the_loss() -> None:
    """Against central differences of the loss in fp64, along random directions."""
    random = np.random.default_rng(7)
    samples = train_digits.load()[0].take(np.arange(30))
    weights = train_digits.initial_weights() + random.normal(0, 0.05, SIZE)
    scaled = np.empty(SIZE)
    train_digits.backward(Layers.of(weights), samples, Layers.of(scaled))

    def loss(at: NDArray[np.float64]) -> float:
        return train_digits.backward(Layers.of(at), samples, Layers.of(np.empty(SIZE)))

    ends = np.cumsum([np.prod(shape) for shape in SHAPES])
    for start, end in zip((0, *ends[:-1]), ends, strict=True):
        direction = np.zeros(SIZE)
        direction[start:end] = random.normal(size=end - start)
        slope = (loss(weights + 1e-6 * direction) - loss(weights - 1e-6 * direction)) / 2e-6
        assert scaled @ direction / LOSS_SCALE == pytest.approx(slope, rel=1e-4)


@pytest.mark.proof
def test_layers_are_views_of_one_flat_array() -> None:
    flat = np.arange(SIZE, dtype=np.float32)
    layers = Layers.of(flat)
    assert [layer.shape for layer in layers] == list(SHAPES)
    assert np.concatenate([layer.ravel() for layer in layers]).tolist() == flat.tolist()
    assert all(np.shares_memory(layer, flat) for layer in layers)
    assert layers.bias2.shape == (CLASSES,)
