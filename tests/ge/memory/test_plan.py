"""Memory plans of graphs: lives by streams and events, in place, switches, numbers, and what does not fit."""

import itertools
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.ge.memory.options import MemoryOptions
from ascend_rt.ge.memory.plan import MemoryPlan, allocate, plan_memory, share
from ascend_rt.testing import RankPool

MIB, TIB = 1 << 20, 1 << 40


def buffer(name: str, nbytes: int, role: ge.Role = ge.Role.INTERMEDIATE) -> ge.Buffer:
    return ge.Buffer(name, nbytes, "uint8", (nbytes,), role)


class Step:
    """A graph of kernels that use whole buffers, written down one after another."""

    def __init__(self, **nbytes: int) -> None:
        self.buffers = {name: buffer(name, size) for name, size in nbytes.items()}
        self.nodes: list[ge.Node] = []

    def node(self, task: Any, reads: str = "", writes: str = "", stream: int = 0) -> "Step":
        spans = [[ge.Span(name, 0, self.buffers[name].nbytes) for name in names.split()] for names in (reads, writes)]
        number = len(self.nodes)
        self.nodes.append(ge.Node(number, f"n{number}", stream, task, *map(tuple, spans), line=f"step.py:{number}"))
        return self

    def kernel(self, reads: str = "", writes: str = "", stream: int = 0, function: Any = operator.add) -> "Step":
        return self.node(ge.Kernel(function), reads, writes, stream)

    def role(self, name: str, role: ge.Role) -> "Step":
        self.buffers[name] = buffer(name, self.buffers[name].nbytes, role)
        return self

    def graph(self) -> ge.Graph:
        return ge.Graph(self.nodes, self.buffers, name="step")


def assert_sound(plan: MemoryPlan, graph: ge.Graph) -> None:
    """No two buffers share bytes unless all nodes of the one come before all of the other; or the one takes over."""
    chains = plan.in_place()
    for a in plan.offsets:
        for b in plan.offsets:
            apart = (
                plan.offsets[a] + graph.buffers[a].nbytes <= plan.offsets[b]
                or plan.offsets[b] + graph.buffers[b].nbytes <= plan.offsets[a]
            )
            uses = [(x.id, y.id) for x in graph.uses(a) for y in graph.uses(b)]
            ordered = all(graph.order.before(x, y) for x, y in uses) or all(graph.order.before(y, x) for x, y in uses)
            assert a == b or apart or ordered or any(a in chain and b in chain for chain in chains)


@pytest.mark.proof
def test_a_chain_of_kernels_needs_two_buffers_at_a_time() -> None:
    step = Step(**{f"b{i}": MIB for i in range(6)})
    for i in range(5):
        step.kernel(f"b{i}", f"b{i + 1}")
    plan = plan_memory(step.graph())
    assert (plan.peak, plan.bound, plan.total_size, plan.no_reuse, plan.zero_copy) == (2 * MIB, 2 * MIB, 6 * MIB, 0, 0)
    assert_sound(plan, plan.graph)


@pytest.mark.proof
def test_two_streams_share_only_behind_an_event() -> None:
    def two(joined: bool) -> ge.Graph:
        step = Step(a=MIB, b=MIB)
        step.kernel("", "a").kernel("a", "")
        if joined:
            step.node(ge.Record(0)).node(ge.Wait(0), stream=1)
        return step.kernel("", "b", stream=1).kernel("b", "", stream=1).graph()

    assert plan_memory(two(joined=False)).peak == 2 * MIB
    assert plan_memory(two(joined=True)).peak == MIB


@st.composite
def steps(draw: st.DrawFn) -> ge.Graph:
    """Buffers that some nodes on two streams use; in the order of events wherever two nodes use one."""
    sizes = draw(st.lists(st.integers(1, 5000), min_size=1, max_size=8))
    step = Step(**{f"b{i}": size for i, size in enumerate(sizes)})
    latest: dict[str, int] = {}
    event = 0
    for _ in range(draw(st.integers(1, 12))):
        stream = draw(st.integers(0, 1))
        names = draw(st.lists(st.sampled_from(sorted(step.buffers)), max_size=3, unique=True))
        if any(latest.get(name, stream) != stream for name in names):
            step.node(ge.Record(event), stream=1 - stream).node(ge.Wait(event), stream=stream)
            event += 1
        latest.update(dict.fromkeys(names, stream))
        function = draw(st.sampled_from([operator.add, np.add]))
        step.kernel(" ".join(names[1:]), " ".join(names[:1]), stream, function)
    return step.graph()


@pytest.mark.proof
@given(steps(), st.booleans())
@settings(deadline=None, max_examples=40)
def test_what_may_run_at_the_same_time_shares_no_byte(graph: ge.Graph, in_place: bool) -> None:
    plan = plan_memory(graph, MemoryOptions(in_place=in_place))
    assert_sound(plan, graph)
    assert plan.bound <= plan.peak <= plan.total_size
    assert in_place or plan.in_place() == []


def add_into(target: object) -> None: ...


@pytest.mark.proof
@pytest.mark.parametrize("task, takes_over", [
    (ge.Kernel(np.add), True),
    (ge.Kernel(np.matmul), True),  # NumPy promises it of every ufunc
    (ge.Kernel(operator.add), False),
    (ge.Copy(ge.Span("b", 0, MIB), ge.Span("a", 0, MIB), MIB), True),
    (ge.Collective("all_reduce", "world", "uint8", MIB), True),
    (ge.Collective("all_gather", "world", "uint8", MIB), False),
])
def test_results_take_over_where_the_task_allows_it(task: Any, takes_over: bool) -> None:
    step = Step(a=MIB, b=MIB).kernel("", "a").node(task, "a", "b").kernel("b", "")
    graph = step.graph()
    plan = plan_memory(graph)
    assert plan.in_place() == ([("a", "b")] if takes_over else [])
    assert plan.peak == (MIB if takes_over else 2 * MIB)
    assert plan_memory(graph, MemoryOptions(in_place=False)).peak == 2 * MIB


@pytest.mark.proof
def test_an_argument_that_is_used_again_is_not_taken_over() -> None:
    plan = plan_memory(Step(a=MIB, b=MIB).kernel("", "a").kernel("a", "b", function=np.add).kernel("a b", "").graph())
    assert plan.in_place() == [] and plan.peak == 2 * MIB


@pytest.mark.proof
def test_of_two_arguments_one_is_taken_over() -> None:
    step = Step(a=MIB, b=MIB, c=MIB).kernel("", "a").kernel("", "b").kernel("a b", "c", function=np.add).kernel("c", "")
    plan = plan_memory(step.graph())
    assert plan.in_place() == [("a", "c")] and plan.peak == 2 * MIB


@pytest.mark.proof
def test_switches() -> None:
    step = Step(x=MIB, a=MIB, b=MIB, c=MIB, y=MIB).role("x", ge.Role.INPUT).role("y", ge.Role.OUTPUT)
    graph = step.kernel("x", "a").kernel("a", "b").kernel("b", "c").kernel("c", "y").graph()

    def numbers(**options: Any) -> tuple[int, int, int]:
        plan = plan_memory(graph, MemoryOptions(**options))
        assert_sound(plan, graph)
        return plan.peak // MIB, plan.no_reuse // MIB, plan.zero_copy // MIB

    assert numbers() == (2, 0, 2)
    assert numbers(reuse=False) == (3, 3, 2)
    assert numbers(no_reuse=("b",)) == (2, 1, 2)
    assert numbers(input_reuse=("x",)) == (2, 0, 1)
    assert numbers(input_reuse=("x",), output_reuse=("y",)) == (2, 0, 0)


@pytest.mark.proof
def test_members_of_a_bucket_lie_side_by_side() -> None:
    step = Step(g0=700, g1=MIB, g2=10)
    graph = step.kernel("", "g0").kernel("", "g1").kernel("", "g2").kernel("g0 g1 g2", "").graph()
    offsets = plan_memory(graph, MemoryOptions(side_by_side=(("g2", "g0", "g1"),))).offsets
    assert (offsets["g0"] - offsets["g2"], offsets["g1"] - offsets["g0"]) == (512, 1024)


def parts_of_a_bucket(count: int, nbytes: int) -> ge.Graph:
    """Activations a0, a1, ... and a bucket, of which a part is written when an activation is used for the last time;
    then all of it is used."""
    step = Step(**{f"a{i}": nbytes for i in range(count)}, bucket=count * nbytes)
    for i in range(count):
        step.kernel(f"a{i - 1}" if i else "", f"a{i}")
    for i in reversed(range(count)):
        step.kernel(f"a{i}", "")
        part = ge.Span("bucket", (count - 1 - i) * nbytes, nbytes)
        step.nodes[-1] = replace(step.nodes[-1], writes=(part,))
    return step.node(ge.Collective("all_reduce", "world", "uint8", count * nbytes), "bucket", "bucket").graph()


@pytest.mark.proof
def test_a_part_of_a_bucket_takes_no_memory_before_it_is_written() -> None:
    graph = parts_of_a_bucket(8, MIB)
    graph.groups["world"] = ge.Group("world", 0, 1, (0,))
    plan = plan_memory(graph)
    assert (plan.peak, plan.bound, plan.total_size) == (9 * MIB, 9 * MIB, 16 * MIB)
    assert_parts_sound(plan)
    assert plan_memory(graph, MemoryOptions(side_by_side=(("bucket",),))).peak == 16 * MIB


def assert_parts_sound(plan: MemoryPlan) -> None:
    """As assert_sound, byte by byte: of each of two buffers those nodes count that use bytes which both lie on."""
    for a, b in itertools.combinations(plan.offsets, 2):
        low = max(plan.offsets[a], plan.offsets[b])
        high = min(plan.offsets[x] + plan.graph.buffers[x].nbytes for x in (a, b))
        cuts = {low, high} if low < high else set()
        for node in plan.graph.nodes:
            spans = [span for span in (*node.reads, *node.writes) if span.buffer in (a, b)]
            cuts.update(plan.offsets[s.buffer] + at for s in spans for at in (s.start, s.stop))
        cuts = {cut for cut in cuts if low <= cut <= high} if low < high else set()
        for start, stop in itertools.pairwise(sorted(cuts)):
            uses = [users(plan, name, start, stop) for name in (a, b)]
            before = plan.graph.order.before
            pairs = list(itertools.product(*uses))
            is_taken_over = any(a in chain and b in chain for chain in plan.in_place())
            assert (
                all(before(x, y) for x, y in pairs) or all(before(y, x) for x, y in pairs) or is_taken_over
            ), (a, b, start, stop)


def users(plan: MemoryPlan, name: str, start: int, stop: int) -> list[int]:
    """Nodes that use the bytes of a buffer which lie there."""
    bytes_ = ge.Span(name, start - plan.offsets[name], stop - start)
    return [n.id for n in plan.graph.nodes if any(s.overlaps(bytes_) for s in (*n.reads, *n.writes))]


@st.composite
def steps_of_parts(draw: st.DrawFn) -> ge.Graph:
    """Buffers of some units, of which nodes on one stream use runs."""
    unit = draw(st.sampled_from([3000, 4096, 5000]))
    units = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    step = Step(**{f"b{i}": count * unit for i, count in enumerate(units)})
    for _ in range(draw(st.integers(2, 14))):
        spans = []
        for i in draw(st.lists(st.integers(0, len(units) - 1), min_size=1, max_size=2, unique=True)):
            first = draw(st.integers(0, units[i] - 1))
            count = draw(st.integers(1, units[i] - first))
            spans.append(ge.Span(f"b{i}", first * unit, count * unit))
        step.kernel(function=draw(st.sampled_from([operator.add, np.add])))
        step.nodes[-1] = replace(step.nodes[-1], writes=tuple(spans[:1]), reads=tuple(spans[1:]))
    return step.graph()


@pytest.mark.proof
@given(steps_of_parts())
@settings(deadline=None, max_examples=40)
def test_parts_that_may_be_in_use_at_the_same_time_share_no_byte(graph: ge.Graph) -> None:
    plan = plan_memory(graph, MemoryOptions(effort=0))
    assert_parts_sound(plan)
    assert plan.bound <= plan.peak <= plan.total_size


@pytest.mark.proof
@pytest.mark.parametrize("options, told", [
    ({"input_reuse": ("a",)}, "graph 'step': 'a' is its intermediate; expected its input"),
    ({"side_by_side": (("z",),)}, "graph 'step': 'z' is none of its buffers; expected its intermediate"),
])
def test_options_that_fit_no_buffer_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        plan_memory(Step(a=MIB).kernel("", "a").graph(), MemoryOptions(**options))


@pytest.mark.proof
def test_the_report_has_ges_numbers_and_the_largest_tensors() -> None:
    graph = Step(small=512, large=MIB).kernel("", "small").kernel("small", "large").kernel("large", "").graph()
    assert plan_memory(graph).report() == (
        "AfterAssignMemory : graph[step], memoffset[1049088], theory_min[1049088], zero_copy[0], total_size[1049088], "
        "no_reuse[0], streams[1], io_reuse[0]\n"
        "  100% of the bytes without reuse, 0.0% above the bound (optimal); 0 chains in place\n"
        "       1,048,576 bytes  large  at 0x0, written by step.py:1\n"
        "             512 bytes  small  at 0x100000, written by step.py:0"
    )


@pytest.mark.proof
def test_a_picture_is_drawn(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "memory.svg"
    plan_memory(Step(a=MIB, b=MIB).kernel("", "a").kernel("a", "b").graph()).draw(path)
    assert "lower bound" in path.read_text() or path.stat().st_size > 1000


def chain(count: int, nbytes: int) -> ge.Graph:
    step = Step(**{f"b{i}": nbytes for i in range(count)})
    for i in range(count - 1):
        step.kernel(f"b{i}", f"b{i + 1}")
    return step.graph()


def planned_on_a_device(comm: rt.Communicator) -> tuple[str, Sequence[int]]:
    from ascend_rt.acl.device import current

    memory = current().memory
    before = memory.device.in_use
    with pytest.raises(ge.GraphMemoryError) as caught:
        allocate(plan_memory(chain(6, TIB)), memory)
    assert (caught.value.code, caught.value.ei) == (245000, "EL0004")
    assert memory.device.in_use == before
    small, large = share([plan_memory(chain(8, MIB)), plan_memory(chain(5, 2 * MIB))], memory)
    assert memory.device.in_use - before == 4 * MIB
    assert all(memory.holds(array) for graph in (small, large) for array in graph.memory.values())
    assert any(np.shares_memory(small.memory["b0"], array) for array in large.memory.values())
    return str(caught.value), [array.nbytes for array in small.memory.values()]


@pytest.mark.processes
def test_what_does_not_fit_is_refused_before_anything_is_allocated(ranks: RankPool) -> None:
    told, sizes = ranks.run(1, planned_on_a_device, environ={})[0]
    assert sizes == [MIB] * 8
    assert "rank 0: graph 'step' needs 2,199,023,255,552 bytes of device 0, which has" in told
    assert "peak 2,199,023,255,552, lower bound 2,199,023,255,552, without reuse 6,597,069,766,656 bytes" in told
    assert "1,099,511,627,776 bytes  b0  at 0x" in told and "of this size would fit" in told


def scale(x: np.ndarray[Any, Any], factor: float, out: np.ndarray[Any, Any]) -> None:
    np.multiply(x, factor, out=out)


def captured_step(comm: rt.Communicator) -> tuple[int, int, int, int]:
    """A chain of 9 activations on one stream, every other of them reduced on another."""
    from ascend_rt.acl.device import current

    compute, communication = rt.Stream(), rt.Stream()
    x, sums = rt.array(np.arange(1000, dtype=np.float32)), [rt.zeros(1000) for _ in range(4)]
    with ge.capture(compute, name="step") as step:
        before = x
        for layer in range(9):
            after = ge.empty(compute, 1000, name=f"act{layer}")
            compute.launch(scale, before, 2.0, after, reads=[before], writes=[after])
            if layer % 2:
                communication.wait(compute.record())
                comm.all_reduce(after, out=sums[layer // 2], stream=communication)
            before = after
        compute.wait(communication.record())
    plan = ge.plan_memory(step)
    in_use = current().memory.device.in_use
    placed = ge.allocate(plan, current().memory)
    for graph in (step, placed):
        for total in sums:
            total[...] = -1
        for _ in range(2):
            graph.launch(compute)
        compute.synchronize()
        for index, total in enumerate(sums):
            np.testing.assert_array_equal(total, x * 2.0 ** (2 * index + 2) * comm.size)
    return plan.peak, plan.bound, plan.total_size, current().memory.device.in_use - in_use


@pytest.mark.processes
def test_a_captured_step_runs_in_planned_memory(ranks: RankPool) -> None:
    for peak, bound, total, taken in ranks.run(2, captured_step):
        assert bound == peak < total == 9 * 4096
        assert taken == 2 * peak  # planned by hand, and at its first launch
