"""The programs that passes are tested with: right in every order in which they may run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import interpreter, programs

pytestmark = pytest.mark.proof


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 4))
def test_programs_give_the_same_in_every_order(seed, size):
    graphs = programs.program(seed, size)
    given = programs.inputs(graphs, seed)
    results = [interpreter.run(graphs, order, given) for order in range(4)]
    assert results[1:] == results[:-1]
    assert [graph.races() for graph in graphs] == [[]] * size
