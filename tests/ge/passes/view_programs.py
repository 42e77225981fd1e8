"""Random programs whose tasks use any part of a few buffers, which ranks may choose alike or not: for a seed always the
same. Nothing is read that was not written."""

import random

import numpy as np

from ascend_rt import ge

from .programs import Writer, accumulate, add, scale

ITEM = 4


def program(seed, size, streams, steps=14):
    """`streams`: at most so many."""
    return [_Script(seed, rank, size).graph(streams, steps) for rank in range(size)]


class _Script:
    """What one rank writes. `draw` says what happens, on all ranks alike; `place` where, maybe alike."""

    def __init__(self, seed, rank, size):
        self.draw = random.Random(seed)
        is_alike = self.draw.random() < 0.7
        self.place = random.Random(f"{seed} {'alike' if is_alike else rank}")
        self.writer, self.size, self.rank = Writer(rank, size), size, rank
        self.length = 8 + 4 * size
        self.written = {}
        for role, names in ((ge.Role.INPUT, "pq"), (ge.Role.INTERMEDIATE, "stuv"), (ge.Role.OUTPUT, "yz")):
            for name in names:
                self.writer.buffer(name, self.length, role)
                self.written[name] = np.full(self.length, role is ge.Role.INPUT)

    def graph(self, streams, steps):
        for name in self.draw.sample("stuvyz", 4):
            self.writer.kernel(scale, self.wrote(self.writer.view(name)), self.writer.view("p"), by=1.5)
        for _ in range(self.draw.randint(4, steps)):
            self.draw.choice(STEPS)(self)
        for name in "yz":
            a = self.source(self.length)
            self.writer.kernel(scale, self.wrote(self.writer.view(name)), a, by=0.5)
        for name in "stuv":
            if self.written[name].any():
                first = int(self.written[name].argmax())
                count = int((~self.written[name][first:]).argmax()) or self.length - first
                self.writer.kernel(accumulate, self.writer.view("y", 0, count), self.writer.view(name, first, count))
        on = [self.draw.randrange(streams) for _ in self.writer.nodes]
        return self.writer.graph(on if streams > 1 else None)

    # ---- places ----

    def anywhere(self, count, names="pqstuvyz"):
        return self.writer.view(self.place.choice(names), self.place.randint(0, self.length - count), count)

    def source(self, count):
        for _ in range(12):
            view = self.anywhere(count)
            if self.mask(view).all():
                return view
        return self.writer.view("p", 0, count)

    def target(self, count, apart=()):
        """Not where any of `apart` is."""
        found = self.anywhere(count)
        while any(found.span.overlaps(view.span) for view in apart):
            found = self.anywhere(count)
        return found

    def mask(self, view):
        step = (view.strides or (ITEM,))[0] // ITEM
        return self.written[view.buffer][view.start // ITEM :][: (view.count - 1) * step + 1 : step]

    def wrote(self, view):
        self.mask(view)[:] = True
        return view

    def block(self, view):
        """This rank's block of a view."""
        count = view.count // self.size
        return self.writer.view(view.buffer, view.start // ITEM + self.rank * count, count)

    def mark(self):
        return self.draw.choice([{}, {}, {"fusion": 2, "fusion_id": 0}, {"fusion": 2, "fusion_id": 1}, {"fusion": 0}])


def _kernel(script):
    count = script.draw.randint(1, script.length)
    a, b = script.source(count), script.source(count)
    script.writer.kernel(add, script.wrote(script.target(count)), a, b)


def _accumulate(script):
    count = script.draw.randint(1, script.length // 2)
    a, out = script.source(count), script.source(count)
    script.writer.kernel(accumulate, out, a)


def _opaque(script):
    count = script.draw.randint(1, 4)
    a, out = script.source(count), script.target(count)
    script.writer.add("opaque", ge.Kernel(scale, (script.wrote(out), a), {"by": 3}, is_opaque=True), [], [])


def _copy(script):
    count = script.draw.randint(1, script.length // 2)
    source = script.source(count)
    to = script.wrote(script.target(count, [source]))
    script.writer.add("copy", ge.Copy(to.span, source.span, count * ITEM), [source.span], [to.span])


def _memset(script):
    to = script.wrote(script.target(script.draw.randint(1, 6)))
    script.writer.add("memset", ge.Memset(to.span, 1), [], [to.span])


def _all_reduce(script):
    draw = script.draw
    count, op, in_place = draw.randint(1, 8), draw.choice(["sum", "sum", "max"]), draw.random() < 0.6
    x = script.source(count)
    out = x if in_place else script.wrote(script.target(count, [x]))
    script.writer.call("all_reduce", x, out, op, **script.mark())


def _strided_all_reduce(script):
    count = script.draw.randint(2, 4)
    name, first = script.place.choice("pq"), script.place.randint(0, 4)
    view = ge.View(name, first * ITEM, "float32", (count,), (2 * ITEM,), ITEM)
    script.writer.call("all_reduce", view, view, **script.mark())


def _gradients(script):
    """Neighbours in memory, in any order, each written and then reduced."""
    draw, writer = script.draw, script.writer
    counts = [draw.randint(1, 3) for _ in range(draw.randint(2, 4))]
    name = script.place.choice("pqstuvyz")
    begin = script.place.randint(0, script.length - sum(counts))
    order = script.place.sample(range(len(counts)), len(counts))
    marks = script.mark()
    for number in order:
        view = writer.view(name, begin + sum(counts[:number]), counts[number])
        a = script.source(counts[number])
        writer.kernel(scale, script.wrote(view), a, by=1.25)
    numbers = draw.sample(range(len(counts)), len(counts))
    for number in numbers:
        view = writer.view(name, begin + sum(counts[:number]), counts[number])
        writer.call("all_reduce", view, view, **marks)


def _all_gather(script):
    count, in_place, mark = script.draw.randint(1, 3), script.draw.random() < 0.3, script.mark()
    if in_place:
        out = script.source(count * script.size)
        script.writer.call("all_gather", script.block(out), out, **mark)
    else:
        x = script.source(count)
        script.writer.call("all_gather", x, script.wrote(script.target(count * script.size, [x])), **mark)


def _reduce_scatter(script):
    count, in_place, mark = script.draw.randint(1, 3), script.draw.random() < 0.3, script.mark()
    x = script.source(count * script.size)
    out = script.block(x) if in_place else script.wrote(script.target(count, [x]))
    script.writer.call("reduce_scatter", x, out, **mark)


def _parameters(script):
    """All-gathers of parts of some buffers into parts of others, as of parameters before they are used."""
    mark = script.mark()
    for _ in range(script.draw.randint(2, 4)):
        x = script.source(script.draw.randint(1, 2))
        script.writer.call("all_gather", x, script.wrote(script.target(x.count * script.size, [x])), **mark)


def _shards(script):
    """Reduce-scatters in a row, as of gradients whose sums are kept by one rank each, and maybe gathered again."""
    mark, is_gathered = script.mark(), script.draw.random() < 0.3
    for _ in range(script.draw.randint(2, 3)):
        x = script.source(script.draw.randint(1, 2) * script.size)
        part = script.wrote(script.target(x.count // script.size, [x]))
        script.writer.call("reduce_scatter", x, part, **mark)
        if is_gathered:
            script.writer.call("all_gather", part, script.wrote(script.target(x.count, [part])))


def _again(script):
    """The same data twice, to the same place or to another, changed in between or not."""
    count, is_same, is_changed = script.draw.randint(1, 2), script.draw.random() < 0.5, script.draw.random() < 0.3
    x = script.source(count)
    out = script.wrote(script.target(count * script.size, [x]))
    script.writer.call("all_gather", x, out)
    if is_changed:
        script.writer.kernel(accumulate, x, script.source(count))
    out = out if is_same else script.wrote(script.target(count * script.size, [x]))
    script.writer.call("all_gather", x, out)


def _own_block_of_a_sum(script):
    count = script.draw.randint(1, 2)
    x = script.source(count * script.size)
    out = script.writer.buffer(f"sum{len(script.writer.nodes)}", x.count)
    script.writer.call("all_reduce", x, out, **script.mark())
    script.writer.kernel(accumulate, script.source(count), script.block(out))


def _cast(script):
    """What is gathered is only read to be cast, or almost."""
    count, is_read, number = script.draw.randint(1, 2), script.draw.random() < 0.2, len(script.writer.nodes)
    x = script.source(count)
    wide = script.writer.buffer(f"wide{number}", count * script.size)
    narrow = script.writer.buffer(f"narrow{number}", count * script.size, dtype="float16")
    script.writer.call("all_gather", x, wide, **script.mark())
    script.writer.kernel(np.copyto, narrow, wide)
    script.writer.kernel(accumulate, script.source(narrow.count), narrow)
    if is_read:
        script.writer.kernel(accumulate, script.source(wide.count), wide)


def _broadcast(script):
    count, root = script.draw.randint(1, 6), script.draw.randrange(script.size)
    x = script.source(count)
    script.writer.call("broadcast", x, x, root=root, **script.mark())


def _reduce(script):
    count, root, mark = script.draw.randint(1, 6), script.draw.randrange(script.size), script.mark()
    x = script.source(count)
    is_root = script.rank == root
    out = script.wrote(script.target(count, [x])) if is_root else None
    task = ge.Collective("reduce", "world", "float32", count, "sum", root, x, out, **mark)
    script.writer.add("reduce", task, [x.span], [out.span] if is_root else [])


STEPS = [
    *[_kernel] * 4,
    *[_all_reduce] * 4,
    *[_gradients] * 2,
    *[_all_gather] * 2,
    *[_reduce_scatter] * 2,
    *[_broadcast] * 2,
    *[_parameters] * 2,
    *[_shards] * 2,
    _again,
    _own_block_of_a_sum,
    _cast,
    _reduce,
    _strided_all_reduce,
    _accumulate,
    _copy,
    _memset,
    _opaque,
]
"""What is drawn, as often as it stands here."""
