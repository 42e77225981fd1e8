"""Graphs launched on native streams: the calls of several launches, failures and who has them, cancelling, under both
sanitizers and without Python."""

import re
from collections.abc import Callable
from typing import Literal

import pytest

pytestmark = pytest.mark.threads

PROGRAM = [f"tests/core/native/{name}.c" for name in ("graphs", "queueing", "slots")]
STREAMS = [f"ascend_rt/core/{name}.c" for name in ("graph", "stream", "mark", "queue", "flag", "value")]
GRAPHS = {"thread": {1: 40, 2: 50, 3: 30}, "address": {1: 80, 2: 100, 3: 60}}


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 3])
def test_random_graphs(
    random_run: Callable[..., tuple[int, str]], sanitizer: Literal["thread", "address"], size: int
) -> None:
    graphs = GRAPHS[sanitizer][size]
    seed, said = random_run([*PROGRAM, *STREAMS], size, graphs)
    found = re.fullmatch(
        rf"graphs of {size} ranks, seed {seed}: {graphs} graphs, (\d+) failed launches, (\d+) committed\n", said
    )
    assert found and int(found[2]) > 0 and (int(found[1]) > 0) == (size > 1), said
