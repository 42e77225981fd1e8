"""Trains a small GPT to write the help of Python, data parallel x tensor parallel.

    hccl-run -n 4 -m ascend_rt.examples.train_gpt               2 models, each on 2 ranks
    hccl-run -n 4 -m ascend_rt.examples.train_gpt --tensor 4    one model on all ranks

Tokens are characters of the topics that `help()` explains, which lie in every Python (pydoc_data.topics).  A step is
queued on one stream: NumPy kernels, sums over the ranks of one model, averages over the models (gpt.py).  With --graph
it is captured once and then launched, with --optimise after the passes of the graph engine and over planned memory; the
losses are the same bit for bit.  The curve is that of one rank but for rounding, however the ranks are arranged.  With
one rank, or without hccl-run, it is ordinary training.
"""

import argparse
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.acl import device
from ascend_rt.examples.gpt import GPT, Grid, Size

SIZE = Size()
BATCH = 24  # sequences of a step, all ranks together
STEPS, SHOWN_EVERY = 160, 40
RATE = 0.005
SEED = 0

Tokens = NDArray[np.int64]


class Batch(NamedTuple):
    """Sequences of (n, SIZE.tokens), and the token that follows each."""

    tokens: Tokens
    targets: Tokens

    def share(self, rank: int, size: int) -> "Batch":
        mine = slice(rank * len(self.tokens) // size, (rank + 1) * len(self.tokens) // size)
        return Batch(self.tokens[mine], self.targets[mine])


def load() -> tuple[Tokens, Tokens]:
    """The text to train on and, its last tenth, to test with; characters that are not ASCII are question marks."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    tokens = np.frombuffer(text, np.uint8).astype(np.int64)
    return tokens[: -len(tokens) // 10], tokens[-len(tokens) // 10 :]


def batches(text: Tokens, count: int, seed: int = SEED, tokens: int = SIZE.tokens) -> Iterator[Batch]:
    """Random places of the text; every rank draws the same ones."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        places = random.integers(len(text) - tokens, size=(BATCH, 1)) + np.arange(tokens)
        yield Batch(text[places], text[places + 1])


def fill(model: GPT, batch: Batch) -> None:
    """Hand the model this rank's share; nothing of it may be queued."""
    data = model.grid.data
    model.tokens[...], model.targets[...] = batch.share(data.rank, data.size)


def captured(model: GPT) -> ge.Graph:
    """A step as a graph, whose arrays between kernels are its own."""
    with ge.capture(model.stream, name="step") as graph:
        model.empty = functools.partial(ge.empty, model.stream)
        model.step(RATE)
        model.empty = rt.empty
    return graph


def optimised(graph: ge.Graph, comm: rt.Communicator) -> ge.Graph:
    """A graph that does the same in less time, over memory that is planned; collective."""
    comm.barrier()  # kernels are measured while all ranks run theirs
    faster = ge.optimise(graph, costs=ge.measured(graph))
    return ge.allocate(ge.plan_memory(faster), device.current().memory)


def step_of(model: GPT, comm: rt.Communicator, way: str) -> Callable[[], None]:
    """What queues a step; collective.  way: "eager", "graph" or "optimise"."""
    if way == "eager":
        return functools.partial(model.step, RATE)
    graph = captured(model)
    return functools.partial((optimised(graph, comm) if way == "optimise" else graph).launch, model.stream)


def train(model: GPT, steps: Iterable[Batch], step: Callable[[], None]) -> Iterator[float]:
    """The loss of every step, before it is taken; collective.  step: queues one."""
    for batch in steps:
        fill(model, batch)
        step()
        model.stream.synchronize()
        yield float(model.loss[0])


def accuracy(model: GPT, comm: rt.Communicator, steps: Iterable[Batch]) -> float:
    """The part of the tokens of `steps` that the model finds likeliest beforehand; collective."""
    found = []
    for batch in steps:
        fill(model, batch)
        model.forward()
        model.stream.synchronize()
        found.append((model.scores.argmax(axis=-1) == model.targets).mean())
    return float(comm.all_reduce(np.array([np.mean(found)]), op="avg")[0])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="train_gpt", description="Trains a small GPT over all ranks of the job.")
    parser.add_argument("--tensor", type=int, help="ranks that hold one model (default: 2 of 4 or more, else 1)")
    parser.add_argument("--steps", type=int, default=STEPS, help="default: %(default)s")
    ways = parser.add_mutually_exclusive_group()
    ways.set_defaults(way="eager")
    graph, optimise = "capture a step once, then launch it", "the same, optimised by the graph engine"
    ways.add_argument("--graph", dest="way", action="store_const", const="graph", help=graph)
    ways.add_argument("--optimise", dest="way", action="store_const", const="optimise", help=optimise)
    return parser.parse_args()


def arranged(comm: rt.Communicator, tensor: int | None) -> Grid:
    """The grid of the job.  SystemExit on every rank: its ranks cannot share the batch, or the heads."""
    tensor = tensor or (2 if comm.size >= 4 and comm.size % 2 == 0 else 1)
    if tensor < 1 or comm.size % tensor or SIZE.heads % tensor or BATCH % (comm.size // tensor):
        text = (
            f"train_gpt: {comm.size} ranks, {tensor} of them to a model: the ranks of a model share its {SIZE.heads} "
            f"heads equally, and the models a batch of {BATCH} sequences; use 1, 2, 4 or 8 ranks and --tensor 1 or 2"
        )
        raise SystemExit(text if comm.rank == 0 else 1)
    return Grid.of(comm, tensor)


def main() -> None:
    asked = arguments()
    # The matrices are small: more BLAS threads would only take the cores from other ranks.
    threadpool_limits(1, user_api="blas")
    comm = rt.init()
    grid = arranged(comm, asked.tensor)
    training, test = load()
    model = GPT(grid, rt.Stream(), BATCH // grid.data.size, SIZE, SEED)
    if comm.rank == 0:
        whole = f"{len(training)} characters, {asked.steps} steps of {BATCH} x {SIZE.tokens}"
        print(f"{whole}, ranks: {grid.data.size} models x {grid.tensor.size}", flush=True)

    step = step_of(model, comm, asked.way)
    began = time.perf_counter()
    for number, loss in enumerate(train(model, batches(training, asked.steps), step), 1):
        if comm.rank == 0 and (number % SHOWN_EVERY == 0 or number in (1, asked.steps)):
            print(f"step {number:4} loss {loss:.3f}", flush=True)
    seconds = time.perf_counter() - began

    right = accuracy(model, comm, batches(test, 8, SEED + 1))
    if comm.rank == 0:
        print(f"{asked.steps * BATCH * SIZE.tokens / seconds:.0f} tokens/s")
        print(f"accuracy {100 * right:.1f} %", flush=True)
    rt.finalize()


if __name__ == "__main__":
    main()
