"""Runs the graphs of several ranks in one thread: NumPy alone, and any order that the graphs allow.

    run([graph of rank 0, graph of rank 1], seed)      the bytes of the programs' buffers, by rank

Memory of the graphs' own begins as noise, as do the buffers that they only write. Which task goes next is drawn among
those whose streams, events and control edges let them; a collective takes place when all ranks have reached it. What
nothing puts in order thus comes in every order sooner or later. Collectives fold in rank order.
"""

import random
from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np

from ascend_rt import ge
from ascend_rt.ge.tying import call_order


class DeadlockError(AssertionError):
    pass


def run(graphs: Sequence[ge.Graph], seed: int, inputs: Sequence[dict[str, bytes]]) -> list[dict[str, bytes]]:
    """`inputs`: what buffers hold at the launch, by rank; others hold noise. What the programs see afterwards."""
    return _Run(graphs, seed, inputs).result()


class _Run:
    def __init__(self, graphs, seed, inputs):
        self.graphs, self.random = graphs, random.Random(seed)
        noise = np.random.default_rng(seed)
        self.memory = [
            {
                name: np.frombuffer(given[name], np.uint8).copy()
                if name in given
                else noise.integers(0, 256, buffer.nbytes, np.uint8)
                for name, buffer in graph.buffers.items()
            }
            for graph, given in zip(graphs, inputs, strict=True)
        ]
        self.missing, self.wanted_by, self.ready = [], [], []
        for graph in graphs:
            edges = {(edge.before, edge.after) for edge in graph.order.edges} | set(call_order(graph.nodes))
            missing, wanted_by = defaultdict(int), defaultdict(list)
            for before, after in edges:
                missing[after] += 1
                wanted_by[before].append(after)
            self.missing.append(missing)
            self.wanted_by.append(wanted_by)
            self.ready.append([node.id for node in graph.nodes if not missing[node.id]])
        self.mail, self.posted = defaultdict(deque), set()
        self.run_all()

    def run_all(self):
        left = sum(len(graph.nodes) for graph in self.graphs)
        while left:
            actions = [(rank, id) for rank, ready in enumerate(self.ready) for id in ready]
            self.random.shuffle(actions)
            done = next((ranks for rank, id in actions if (ranks := self.try_to_run(rank, id))), None)
            if done is None:
                raise DeadlockError([str(self.graphs[rank].by_id[id]) for rank, id in actions])
            for rank, id in done:
                self.ready[rank].remove(id)
                for after in self.wanted_by[rank][id]:
                    self.missing[rank][after] -= 1
                    if not self.missing[rank][after]:
                        self.ready[rank].append(after)
            left -= len(done)

    def try_to_run(self, rank, id):
        """What has run, as (rank, id), or nothing."""
        task = self.graphs[rank].by_id[id].task
        if isinstance(task, ge.Collective):
            return self.collective(rank, task)
        if isinstance(task, ge.Transfer):
            return self.transfer(rank, id, task)
        if isinstance(task, ge.Kernel):
            with np.errstate(over="ignore"):
                task.function(*self.arrays(rank, task.arguments), **self.arrays(rank, dict(task.keywords)))
        elif isinstance(task, ge.Copy):
            to, source = self.bytes(rank, task.to), self.bytes(rank, task.source)
            for row in range(task.rows):
                beginning = row * task.source_pitch
                to[row * task.to_pitch :][: task.nbytes] = source[beginning : beginning + task.nbytes]
        elif isinstance(task, ge.Memset):
            self.bytes(rank, task.to)[:] = task.value
        return [(rank, id)]

    def collective(self, rank, task):
        members = self.graphs[rank].groups[task.communicator].world_ranks
        calls = []
        for member in members:
            nodes = [self.graphs[member].by_id[id] for id in self.ready[member]]
            calls.append(
                [n for n in nodes if isinstance(n.task, ge.Collective) and n.communicator == task.communicator]
            )
        if not all(calls):
            return None
        nodes = [found for (found,) in calls]
        tasks = [node.task for node in nodes]
        form = {(t.call, t.dtype, t.count, t.op, t.root) for t in tasks}
        assert len(form) == 1, f"ranks disagree: {form}"
        results = collective_results(tasks, [self.array(m, t.x).copy() for m, t in zip(members, tasks, strict=True)])
        for member, each, result in zip(members, tasks, results, strict=True):
            if result is not None:
                self.array(member, each.out).reshape(-1)[:] = result
        return [(member, node.id) for member, node in zip(members, nodes, strict=True)]

    def transfer(self, rank, id, task):
        """What it sends is posted at once; it is done when all that it receives is there."""
        peers = self.graphs[rank].groups[task.communicator].world_ranks
        if (rank, id) not in self.posted:
            self.posted.add((rank, id))
            for message in task.messages:
                if not message.receives:
                    box = self.mail[task.communicator, rank, peers[message.peer]]
                    box.append(self.array(rank, message.view).copy())
        received = [message for message in task.messages if message.receives]
        boxes = [(task.communicator, peers[message.peer], rank) for message in received]
        if any(len(self.mail[box]) < boxes.count(box) for box in boxes):
            return None
        for message, box in zip(received, boxes, strict=True):
            sent, view = self.mail[box].popleft(), self.array(rank, message.view)
            assert (sent.dtype, sent.size) == (view.dtype, view.size)
            view.reshape(-1)[:] = sent.reshape(-1)
        return [(rank, id)]

    def bytes(self, rank, span):
        return self.memory[rank][span.buffer][span.start : span.stop]

    def array(self, rank, view):
        if view is None:
            return np.empty(0, np.uint8)
        raw = self.memory[rank][view.buffer][view.start :]
        dtype = np.dtype(view.dtype)
        if view.strides is None:
            return raw[: view.count * dtype.itemsize].view(dtype).reshape(view.shape)
        whole = raw[: len(raw) // dtype.itemsize * dtype.itemsize].view(dtype)
        return np.lib.stride_tricks.as_strided(whole, view.shape, view.strides)

    def arrays(self, rank, value):
        if isinstance(value, ge.View):
            return self.array(rank, value)
        if isinstance(value, tuple | list):
            return type(value)(self.arrays(rank, part) for part in value)
        if isinstance(value, dict):
            return {key: self.arrays(rank, part) for key, part in value.items()}
        return value

    def result(self):
        return [
            {
                name: self.memory[rank][name].tobytes()
                for name, buffer in graph.buffers.items()
                if buffer.role is not ge.Role.INTERMEDIATE
            }
            for rank, graph in enumerate(self.graphs)
        ]


def collective_results(tasks, xs):
    """What each rank's out becomes; None: it stays."""
    task, size = tasks[0], len(tasks)
    with np.errstate(all="ignore"):
        if task.call == "all_reduce":
            return [folded(task.op, xs)] * size
        if task.call == "reduce":
            return [folded(task.op, xs) if rank == task.root else None for rank in range(size)]
        if task.call == "reduce_scatter":
            blocks = [x.reshape(size, -1) for x in xs]
            return [folded(task.op, [block[rank] for block in blocks]) for rank in range(size)]
        if task.call == "all_gather":
            return [np.concatenate([x.reshape(-1) for x in xs])] * size
        if task.call == "broadcast":
            return [None if rank == task.root else xs[task.root].reshape(-1) for rank in range(size)]
    raise NotImplementedError(task.call)


def folded(op, xs):
    functions = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
    total = xs[0].reshape(-1).copy()
    for x in xs[1:]:
        total = functions[op](total, x.reshape(-1))
    return total


def check_same_bits(before, after, seed, inputs, orders=2):
    """Both give the programs the same bytes, in several orders, and nothing in `after` races."""
    expected = run(before, seed, inputs)
    for order in range(orders):
        assert run(after, seed * 31 + order + 1, inputs) == expected
    assert [graph.races() for graph in after] == [[] for _ in after]
