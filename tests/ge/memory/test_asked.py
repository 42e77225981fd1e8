"""GE's options of memory reach the planner, at whatever level they stand."""

import operator

import pytest

from ascend_rt import ge
from ascend_rt.ge.memory.asked import memory_options
from ascend_rt.ge.options import OptionError, Options

pytestmark = pytest.mark.proof

NBYTES = 1024


def chain() -> ge.Graph:
    """Inputs a and b, outputs c and d, and three buffers between that need not be there at the same time."""
    b = ge.Builder(0, {})
    now = b.input("a", (NBYTES // 4,))
    b.input("b", (NBYTES // 4,))
    for name in ("one", "two", "three"):
        before, now = now, b.empty(name, (NBYTES // 4,))
        b.kernel(operator.add, before, now, reads=[before], writes=[now])
    for name in ("c", "d"):
        b.copy(b.output(name, (NBYTES // 4,)), now)
    return b.graph("chain")


@pytest.mark.parametrize("level", ["graph", "session", "globally"])
def test_reuse_is_switched_off(level: str) -> None:
    options = Options(**{level: {"ge.exec.disableReuseMemory": "1"}})
    plain, done = (ge.optimise(chain(), given) for given in (Options(), options))
    assert ge.plan_memory(plain).peak == 2 * NBYTES
    assert ge.plan_memory(done).peak == 3 * NBYTES and "memory: to be planned with" in done.log[-1]
    assert ge.plan_memory(done, ge.MemoryOptions()).peak == 2 * NBYTES


@pytest.mark.parametrize(("policy", "in_turn"), [("0", False), ("2", True), ("3", True), ("4", True)])
def test_a_policy_of_0_has_a_graph_lie_alone(policy: str, in_turn: bool) -> None:
    done = ge.optimise(chain(), Options(session={"ge.exec.staticMemoryPolicy": policy}))
    assert (done.memory_options or ge.MemoryOptions()).takes_turns is in_turn


def test_indexes_are_of_inputs_and_of_outputs() -> None:
    given = {"ge.exec.inputReuseMemIndexes": "1,0", "ge.exec.outputReuseMemIndexes": "1"}
    asked = memory_options(Options(session=given), chain())
    assert asked == ge.MemoryOptions(input_reuse=("a", "b"), output_reuse=("d",))
    assert {"a", "b", "d"} < set(ge.plan_memory(chain(), asked).offsets)


@pytest.mark.parametrize("key", ["ge.exec.inputReuseMemIndexes", "ge.exec.outputReuseMemIndexes"])
def test_an_index_beyond_them_is_refused(key: str) -> None:
    put = "input" if "input" in key else "output"
    with pytest.raises(OptionError, match=f"E10001: option {key} is '0,2'; expected indexes of its 2 {put}s, from 0"):
        ge.optimise(chain(), Options({key: "0,2"}))


def test_a_smaller_plan_is_searched_for_longer_with_memory_priority() -> None:
    policy = "ge.exec.memoryOptimizationPolicy"
    assert memory_options(Options({policy: "MemoryPriority"}), chain()) == ge.MemoryOptions(effort=2)
    assert memory_options(Options({policy: "BalanceMode"}), chain()) == ge.MemoryOptions()


def test_a_graph_above_the_most_is_refused_before_anything_is_allocated() -> None:
    most = "ge.graphMemoryMaxSize"
    ge.optimise(chain(), Options({most: str(2 * NBYTES)}))
    told = rf"EL0004: graph 'chain' needs 2,048 bytes, and {most} is 2,047; .*\n.*\n +1,024 bytes  (one|two|three)"
    with pytest.raises(ge.GraphMemoryError, match=told):
        ge.optimise(chain(), Options({most: str(2 * NBYTES - 1)}))
    with pytest.raises(ge.GraphMemoryError, match="needs 3,072 bytes"):
        ge.optimise(chain(), Options({most: str(2 * NBYTES), "ge.exec.disableReuseMemory": "1"}))
