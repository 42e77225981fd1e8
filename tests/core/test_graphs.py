"""Graphs launched on native streams: the calls of several launches, failures and who has them, cancelling, under both
sanitizers and without Python."""

import random
import re
from collections.abc import Callable
from typing import Literal

import pytest

pytestmark = pytest.mark.threads

PROGRAM = [f"tests/core/native/{name}.c" for name in ("graphs", "slots", "threads", "calls")]
STREAMS = [f"ascend_rt/core/{name}.c" for name in ("graph", "stream", "mark", "queue", "flag", "value")]
GRAPHS = {"thread": {1: 40, 2: 50, 3: 30}, "address": {1: 80, 2: 100, 3: 60}}


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 3])
def test_random_graphs(
    compile_and_run: Callable[..., str],
    engine: list[str],
    plan_file: Callable[..., str],
    sanitizer: Literal["thread", "address"],
    waiting: str,
    size: int,
) -> None:
    seed, graphs = random.randrange(2**32), GRAPHS[sanitizer][size]
    said = compile_and_run(
        [*PROGRAM, *STREAMS, *engine], sanitizer, str(size), str(seed), str(graphs), plan_file(size), waiting
    )
    found = re.fullmatch(
        rf"graphs of {size} ranks, seed {seed}: {graphs} graphs, (\d+) failed launches, (\d+) committed\n", said
    )
    assert found and int(found[2]) > 0 and (int(found[1]) > 0) == (size > 1), said
