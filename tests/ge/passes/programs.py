"""Random programs of several ranks, right ones: for a seed always the same, on all ranks alike but for their blocks."""

import random
from dataclasses import replace

import numpy as np

from ascend_rt import ge
from ascend_rt.ge.tying import tied

WORLD = "world"


def add(out, a, b):
    out[...] = a + b


def scale(out, a, by):
    out[...] = a * np.float32(by)


def accumulate(out, a):
    out += a


for function in (add, scale, accumulate):
    function.pure = True


class Writer:
    """Writes the graph of one rank, task by task; everything is float32 unless told."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.nodes, self.buffers = [], {}

    def buffer(self, name, count, role=ge.Role.INTERMEDIATE, dtype="float32"):
        itemsize = np.dtype(dtype).itemsize
        self.buffers[name] = ge.Buffer(name, count * itemsize, dtype, (count,), role)
        return self.view(name)

    def view(self, name, first=0, count=None):
        buffer = self.buffers[name]
        itemsize = np.dtype(buffer.dtype).itemsize
        count = buffer.shape[0] - first if count is None else count
        return ge.View(name, first * itemsize, buffer.dtype, (count,), None, itemsize)

    def block(self, name):
        """This rank's block of a buffer."""
        count = self.buffers[name].shape[0] // self.size
        return self.view(name, self.rank * count, count)

    def kernel(self, function, out, *arguments, **keywords):
        reads = [value.span for value in arguments if isinstance(value, ge.View)]
        reads += [out.span] if function is accumulate else []
        task = ge.Kernel(function, (out, *arguments), keywords)
        return self.add(function.__name__, task, reads, [out.span])

    def call(self, call, x, out, op="sum", root=0, **more):
        count = min(x.count, out.count)
        task = ge.Collective(call, WORLD, x.dtype, count, op, root, x, out, **more)
        reads, writes = [x.span], [out.span]
        if call == "broadcast":
            reads, writes = (reads, []) if self.rank == root else ([], writes)
        return self.add(call, task, reads, writes)

    def send(self, x, dest):
        return self.batch(ge.Message(False, dest, x), call="send")

    def recv(self, out, source):
        return self.batch(ge.Message(True, source, out), call="recv")

    def batch(self, *messages, call="batch_send_recv"):
        sides = [[message.view.span for message in messages if message.receives == way] for way in (False, True)]
        return self.add(call, ge.Transfer(call, WORLD, messages), *sides)

    def add(self, name, task, reads, writes):
        line = f"step.py:{len(self.nodes) + 1}"
        node = ge.Node(
            len(self.nodes), name, 0, task, tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)), (), line
        )
        self.nodes.append(node)
        return node

    def graph(self, streams=None):
        """With nodes on streams by id, if told."""
        group = ge.Group(WORLD, self.rank, self.size, tuple(range(self.size)))
        graph = ge.Graph(self.nodes, self.buffers, {WORLD: group}, name="step")
        if streams is None:
            return graph
        return graph.replace("streams", nodes=tied(graph, [replace(n, stream=streams[n.id]) for n in graph.nodes]))


def inputs(graphs, seed):
    """Bytes of the programs' buffers, by rank: numbers of all sizes, so that another order of sums is another sum."""
    drawn = np.random.default_rng(seed)
    held = []
    for graph in graphs:
        given = {}
        for name, buffer in graph.buffers.items():
            if buffer.role is not ge.Role.INTERMEDIATE:
                numbers = drawn.standard_normal(buffer.shape) * 10.0 ** drawn.integers(-3, 4, buffer.shape)
                given[name] = numbers.astype(buffer.dtype).tobytes()
        held.append(given)
    return held


def program(seed, size, steps=16, streams=3):
    """Kernels and calls on whole buffers, halves and blocks. `streams`: at most so many; 1 is a plain script."""
    return [_write(random.Random(seed), Writer(rank, size), steps, streams) for rank in range(size)]


def _write(draw, writer, steps, streams):
    script = _Script(draw, writer)
    for _ in range(draw.randint(3, steps)):
        draw.choice(STEPS)(script)
    script.end()
    return writer.graph([draw.randrange(streams) for _ in writer.nodes] if streams > 1 else None)


class _Script:
    """What a program that is being written has: buffers, and which of them hold something."""

    def __init__(self, draw, writer):
        self.draw, self.writer = draw, writer
        self.count = 4 * writer.size
        self.written = [f"p{number}" for number in range(3)]
        self.fresh = [f"t{number}" for number in range(6)]
        self.blocks, self.messages = [], []
        for name in self.written:
            writer.buffer(name, self.count, ge.Role.INPUT)
        for name in self.fresh:
            writer.buffer(name, self.count)
        for number in range(3):
            writer.buffer(f"s{number}", self.count // writer.size)

    def target(self):
        draw = self.draw
        name = self.fresh.pop(0) if self.fresh and draw.random() < 0.5 else draw.choice(self.written)
        if name not in self.written:
            self.written.append(name)
        return self.writer.view(name)

    def source(self):
        return self.writer.view(self.draw.choice(self.written))

    def halves(self, name):
        half = self.count // 2
        return self.writer.view(name, 0, half), self.writer.view(name, half)

    def end(self):
        """What nothing reads is of no use: one output is made of everything that is left."""
        draw, writer = self.draw, self.writer
        out = writer.buffer("out", self.count, ge.Role.OUTPUT)
        writer.kernel(scale, out, self.source(), by=0.5)
        for name in draw.sample(self.written, draw.randint(0, len(self.written))):
            if draw.random() < 0.5:
                writer.kernel(accumulate, out, writer.view(name))
            else:
                writer.kernel(accumulate, writer.block("out"), writer.block(name))


def _kernel(script):
    a, b = script.source(), script.source()
    script.writer.kernel(add, script.target(), a, b)


def _accumulate_halves(script):
    half, _ = script.halves(script.draw.choice(script.written))
    _, other = script.halves(script.draw.choice(script.written))
    script.writer.kernel(accumulate, half, other)


def _all_reduce_in_place(script):
    x = script.source()
    script.writer.call("all_reduce", x, x, script.draw.choice(["sum", "sum", "max"]))


def _all_reduce(script):
    x, out = script.source(), script.target()
    script.writer.call("all_reduce", x, x if out.buffer == x.buffer else out)


def _all_reduce_halves(script):
    for half in script.halves(script.draw.choice(script.written)):
        script.writer.call("all_reduce", half, half)


def _mark(draw):
    """Of calls that are not fused unless they are told."""
    return draw.choice([{}, {"fusion": 2, "fusion_id": 0}, {"fusion": 2, "fusion_id": 1}])


def _reduce_scatter(script):
    draw, writer = script.draw, script.writer
    block = writer.view(f"s{draw.randint(0, 2)}")
    x = script.source()
    out = block if draw.random() < 0.5 else writer.block(x.buffer)
    writer.call("reduce_scatter", x, out, **_mark(draw))
    if out is block and block not in script.blocks:
        script.blocks.append(block)
    if draw.random() < 0.5:
        writer.call("all_gather", out, x if out is not block else script.target(), **_mark(draw))


def _all_gather(script):
    draw, writer = script.draw, script.writer
    x = draw.choice(script.blocks) if script.blocks and draw.random() < 0.7 else None
    for _ in range(draw.randint(1, 2)):
        out = script.source() if x is None else script.target()
        writer.call("all_gather", writer.block(out.buffer) if x is None else x, out, **_mark(draw))


def _broadcast(script):
    x, root = script.source(), script.draw.randrange(script.writer.size)
    for _ in range(script.draw.randint(1, 2)):
        script.writer.call("broadcast", x, x, root=root, **_mark(script.draw))


def _cast(script):
    """A call, and behind it a cast of its result to a smaller type, which is seldom the only reader."""
    draw, writer = script.draw, script.writer
    name = f"n{len(writer.nodes)}"
    small = writer.buffer(name, script.count, dtype="float16")
    wide = writer.buffer(f"{name}w", script.count)
    call = draw.choice(["all_gather", "broadcast", "all_reduce"])
    if call == "all_gather":
        writer.call(call, writer.block(script.source().buffer), wide)
    else:
        writer.kernel(add, wide, script.source(), script.source())
        writer.call(call, wide, wide, root=draw.randrange(writer.size) if call == "broadcast" else 0)
    if draw.random() < 0.3:
        a = script.source()
        writer.kernel(scale, script.target(), a, by=2)
    writer.kernel(np.copyto, small, wide)
    if draw.random() < 0.2:
        writer.kernel(accumulate, writer.view("p0"), wide)
    writer.kernel(accumulate, writer.view(draw.choice(script.written)), small)


def _message(script):
    """Two ranks send each other what the other one casts, and maybe uses otherwise too."""
    draw, writer = script.draw, script.writer
    if writer.size == 1:
        return
    name, pair, in_batch = f"m{len(script.messages)}", draw.sample(range(writer.size), 2), draw.random() < 0.5
    script.messages.append(name)
    wide, got = (writer.buffer(f"{name}{word}", script.count) for word in ("wide", "got"))
    small = writer.buffer(f"{name}small", script.count, dtype="float16")
    writer.kernel(add, wide, script.source(), script.source())
    is_cast, target = [draw.random() < 0.8 for _ in pair], script.source()
    if writer.rank not in pair:
        return
    peer = pair[1 - pair.index(writer.rank)]
    if in_batch:
        writer.batch(ge.Message(False, peer, wide), ge.Message(True, peer, got))
    elif writer.rank == pair[0]:
        writer.send(wide, peer)
        writer.recv(got, peer)
    else:
        writer.recv(got, peer)
        writer.send(wide, peer)
    writer.kernel(np.copyto, small, got)
    writer.kernel(accumulate, target, small)
    if not is_cast[pair.index(writer.rank)]:
        writer.kernel(accumulate, target, got)


STEPS = [
    *[_kernel] * 4,
    *[_broadcast] * 4,
    *[_all_reduce_in_place] * 2,
    *[_all_reduce] * 2,
    *[_cast] * 2,
    _message,
    _all_reduce_halves,
    _reduce_scatter,
    _all_gather,
    _accumulate_halves,
]
"""What is drawn, as often as it stands here."""


def graphs_of(write, size=2):
    """By rank, what `write(writer)` has written."""
    graphs = []
    for rank in range(size):
        writer = Writer(rank, size)
        write(writer)
        graphs.append(writer.graph())
    return graphs


def training(rank, size, layers, count=64, *, own_gradients=True, updates_last=True):
    """A data-parallel step as a plain script has it: forward, then for each layer from the last to the first its
    gradient, the all-reduce of it, and its update there or at the end."""
    writer = Writer(rank, size)
    for number in range(layers):
        writer.buffer(f"w{number}", count, ge.Role.INPUT)
        writer.buffer(f"g{number}", count, ge.Role.INTERMEDIATE if own_gradients else ge.Role.OUTPUT)
    writer.buffer("x", count, ge.Role.INPUT)
    for number in range(layers):
        writer.kernel(add, writer.buffer(f"a{number}", count), writer.view(f"w{number}"), writer.view(_before(number)))
    updates = []
    for number in reversed(range(layers)):
        gradient = writer.view(f"g{number}")
        writer.kernel(add, gradient, writer.view(f"a{number}"), writer.view(f"w{number}"))
        writer.call("all_reduce", gradient, gradient)
        if updates_last:
            updates.append(number)
        else:
            writer.kernel(accumulate, writer.view(f"w{number}"), gradient)
    for number in updates:
        writer.kernel(accumulate, writer.view(f"w{number}"), writer.view(f"g{number}"))
    return writer.graph()


def _before(number):
    return f"a{number - 1}" if number else "x"
