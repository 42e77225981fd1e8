"""Predicted steps, by hand."""

import operator

import pytest

from ascend_rt import ge
from ascend_rt.ge import timeline
from ascend_rt.ge.costs import Cost, Costs
from ascend_rt.plan.choice import Row
from ascend_rt.plan.linked import linked_us
from ascend_rt.plan.model import SHIPPED, Machine
from ascend_rt.settings import LinksOf

pytestmark = pytest.mark.proof

GROUPS = {
    "world": ge.Group("world", 0, 4, (0, 1, 2, 3)),
    "half": ge.Group("half", 0, 2, (0, 1)),
    "other": ge.Group("other", 0, 2, (0, 2)),
}
X = ge.View("x", 0, "float32", (1000,), None, 4)


def kernel(id, stream=0, after=()):
    return ge.Node(id, f"k{id}", stream, ge.Kernel(operator.add), (), (), after, f"step.py:{id}")


def call(id, stream=1, communicator="world", name="all_reduce", count=1000):
    return ge.Node(
        id, name, stream, ge.Collective(name, communicator, "float32", count, x=X, out=X), (X.span,), (X.span,)
    )


def record(id, stream, event):
    return ge.Node(id, "record", stream, ge.Record(event))


def wait(id, stream, event):
    return ge.Node(id, "wait", stream, ge.Wait(event))


def predict(nodes, cores=1.0, **work):
    """Work in microseconds by "k0", "c1"; a call's link takes 100 us besides."""
    costs = {}
    for node in nodes:
        us = work.get(f"{'c' if node.communicator else 'k'}{node.id}", 0.0)
        costs[node.id] = Cost(us, 100.0) if node.communicator else Cost(us)
    return timeline.run(nodes, costs, GROUPS, cores)


def times(predicted):
    return {id: (slot.start, slot.end) for id, slot in predicted.slots.items()}


def test_one_stream_is_one_after_another():
    predicted = predict([kernel(0), call(1, 0), kernel(2)], k0=30, k2=20)
    assert times(predicted) == {0: (0, 30), 1: (30, 130), 2: (130, 150)}
    assert (predicted.step_us, predicted.compute_us, predicted.exposed_us) == (150, 50, 100)
    assert predicted.exposed() == {1: 100}


def test_a_call_is_hidden_by_the_kernel_beside_it():
    nodes = [kernel(0), record(1, 0, 0), wait(2, 1, 0), call(3), record(4, 1, 1), kernel(5), wait(6, 0, 1), kernel(7)]
    predicted = predict(nodes, k0=30, k5=70, k7=10)
    assert times(predicted)[3] == (30, 130)
    assert times(predicted)[7] == (130, 140)
    assert (predicted.exposed(), predicted.exposed_us) == ({3: 30}, 30)
    assert predicted.slots[3].behind == 0
    assert predicted.slots[7].behind == 3
    graph = ge.Graph(nodes, {"x": ge.Buffer("x", 4000)}, GROUPS)
    table = timeline.report(graph, predict([call(3, 0)]), predicted)
    assert table.splitlines()[0] == "step 100.0 -> 140.0 us, exposed 100.0 -> 30.0 us"
    assert table.splitlines()[2].split() == [
        *("3", "all_reduce", "30.0", "100.0", "100.0", "30.0"),
        *["0", "k0", "is", "done", "only", "then", "(step.py:0)"],
    ]


def test_what_is_worked_on_at_once_shares_the_cores():
    nodes = [kernel(0, 0), kernel(1, 1)]
    assert times(predict(nodes, k0=10, k1=30)) == {0: (0, 20), 1: (0, 40)}
    assert times(predict(nodes, cores=2.0, k0=10, k1=30)) == {0: (0, 10), 1: (0, 30)}
    # The call's own work takes the core for a while; what its link takes does not.
    assert times(predict([kernel(0), call(1)], k0=50, c1=20)) == {0: (0, 70), 1: (0, 100)}


def test_calls_of_a_communicator_and_those_with_a_link_in_common_take_turns():
    assert times(predict([call(0, 1), call(1, 2)])) == {0: (0, 100), 1: (100, 200)}
    shared = predict([call(0, 1, "half"), call(1, 2, "world")])
    assert times(shared) == {0: (0, 100), 1: (100, 200)}
    assert shared.slots[1].behind == 0
    assert times(predict([call(0, 1, "half"), call(1, 2, "other")])) == {0: (0, 100), 1: (0, 100)}


def test_control_edges_are_waited_for():
    assert times(predict([kernel(0, 1), kernel(1, 0, (0,))], k0=10, k1=5)) == {0: (0, 10), 1: (10, 15)}


@pytest.mark.parametrize(
    ("name", "communicator", "us"),
    [
        ("all_reduce", "world", 5 + 2 * 4000 / 4 / 1000),
        ("all_reduce", "half", 5 + 4000 / 1000),
        ("reduce_scatter", "world", 5 + 4000 / 1000),
        ("all_gather", "world", 5 + 4000 / 1000),
        ("broadcast", "half", 5 + 4000 / 1000),
    ],
)
def test_a_mesh_on_emulated_links_costs_what_the_links_page_says(name, communicator, us):
    costs = Costs(links=LinksOf()("1GB/s,5us"))
    assert costs.of(call(0, 1, communicator, name), GROUPS).least_us == pytest.approx(us)


def test_calls_over_links_are_as_late_as_was_measured_of_their_ranks():
    late = Costs(links=LinksOf()("1GB/s,5us"), late_us={(0, 2): 70.0})
    for communicator, us in (("half", 0.0), ("other", 70.0)):
        on_time = Costs(links=late.links).of(call(0, 1, communicator), GROUPS)
        assert late.of(call(0, 1, communicator), GROUPS).least_us == pytest.approx(on_time.least_us + us)
    assert Costs(late_us=late.late_us).of(call(0, 1, "other"), GROUPS).least_us == 0


def test_kernels_are_faster_or_slower_than_measured():
    costs = Costs({0: 12.0}, links=LinksOf()("1GB/s,50us"), task_us=1.5)
    assert costs.with_kernels_at(1.25).of(kernel(0), GROUPS) == Cost(12 / 1.25 + 1.5)
    assert costs.with_kernels_at(1.25).of(call(1), GROUPS) == costs.of(call(1), GROUPS)


def test_kernels_cost_what_was_measured_and_calls_what_the_machine_takes():
    machine = Machine(4, SHIPPED)
    costs = Costs({0: 12.0}, machine, ranks=2, task_us=1.5)
    assert costs.of(kernel(0), GROUPS) == Cost(13.5)
    predicted = machine.predicted_us("all_reduce", "mesh", 4, 4000)
    assert costs.of(call(1), GROUPS) == Cost(predicted + 1.5)
    assert costs.cores == 2
    assert Costs(machine=machine, ranks=8).cores == 1


@pytest.mark.parametrize(("text", "dtype", "is_mesh"), [
    ("4GB/s,5us;0-2:4GB/s,5us", "float32", True),
    ("4GB/s,5us;0-2:40MB/s,5us", "float32", False),
    ("4GB/s,5us;0-2:40MB/s,5us", "bfloat16", True),  # the default folds halves once
])
def test_a_call_over_uneven_links_is_predicted_by_the_algorithm_that_is_taken(text, dtype, is_mesh):
    nbytes, members = 1 << 20, (0, 1, 2, 3)
    links, machine = LinksOf()(text), Machine(4, SHIPPED)
    wires = tuple(links.costs(rank, members) for rank in members)
    costs = Costs(machine=machine, links=links, late_us={members: 7.0}, task_us=1.5)
    found = costs.call("all_reduce", nbytes, GROUPS["world"], dtype=dtype)
    mesh_us = linked_us(machine, wires, Row("all_reduce", "mesh"), nbytes)
    if links.between(0, 2) == links.between(2, 3):
        assert found.least_us == pytest.approx(2 * 5 + 2 * nbytes / 4 / 4000 + 7.0, rel=0.1)
    elif is_mesh:
        assert found.least_us == pytest.approx(mesh_us + 7.0)
    else:
        assert found.least_us < 0.9 * mesh_us
        said = Costs(machine=machine, links=links, algorithms={"all_reduce": "mesh"})
        assert said.call("all_reduce", nbytes, GROUPS["world"]).least_us > found.least_us
