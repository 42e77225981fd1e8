"""The collectives of a communicator as methods; all_reduce, broadcast and barrier are the native base's own."""

from typing import Any

from ..acl.memory import Array
from ..acl.stream import Stream
from ..core import _core
from ..plan.collectives import COLLECTIVES, Collective


class Collectives(_core.Communicator):
    """What a communicator does with arrays of all ranks. How the calls behave is told at Communicator."""

    rank: int
    size: int

    def reduce(
        self, x: Array, out: Array | None = None, op: str = "sum", root: int = 0, stream: Stream | None = None
    ) -> Array | None:
        """Fold x over all ranks; the root gets the result, and None is returned everywhere else.

        x: any shape, the same count on every rank; out: as many elements, on the root x itself when not given. Off the
        root out is not looked at, and x stays. op: sum, prod, max, min or avg; see all_reduce.
        """
        return self._only_on(root, self._run(COLLECTIVES["reduce"], x, out, op, root, stream))

    def all_gather(self, x: Array, out: Array | None = None, stream: Stream | None = None) -> Array:
        """Every rank's x, one behind another in rank order, on every rank.

        x: any shape. out: (size, *x.shape), made in the kind of memory of x when not given; in place, x is out[rank].
        """
        return self._run(COLLECTIVES["all_gather"], x, out, "sum", 0, stream)

    def reduce_scatter(
        self, x: Array, out: Array | None = None, op: str = "sum", stream: Stream | None = None
    ) -> Array:
        """Fold x over all ranks; each rank gets its own block of the result.

        x: (size * k, ...). out: (k, ...), made in the kind of memory of x when not given; in place, out is block `rank`
        of x. op: sum, prod, max, min or avg; see all_reduce.
        """
        return self._run(COLLECTIVES["reduce_scatter"], x, out, op, 0, stream)

    def all_to_all(self, x: Array, out: Array | None = None, stream: Stream | None = None) -> Array:
        """Block i of x goes to rank i; out gets the blocks of all ranks in rank order.

        x: (size * k, ...). out: the same shape, made in the kind of memory of x when not given. There is no in-place
        form: out must not overlap x.
        """
        return self._run(COLLECTIVES["all_to_all"], x, out, "sum", 0, stream)

    def scatter(
        self, x: Array | None, out: Array | None = None, root: int = 0, stream: Stream | None = None
    ) -> Array:
        """Block i of the root's x goes to rank i.

        x: (size * k, ...) on the root; elsewhere it is not looked at and may be None. out: (k, ...); only the root's
        may be left out, and is made in the kind of memory of x then. In place, out is the root's block of x.
        """
        return self._run(COLLECTIVES["scatter"], x, out, "sum", root, stream)

    def gather(
        self, x: Array, out: Array | None = None, root: int = 0, stream: Stream | None = None
    ) -> Array | None:
        """Every rank's x, one behind another in rank order, on the root; None is returned everywhere else.

        x: any shape. out: (size, *x.shape) on the root, made in the kind of memory of x when not given; in place, x is
        out[root]. Off the root out is not looked at.
        """
        return self._only_on(root, self._run(COLLECTIVES["gather"], x, out, "sum", root, stream))

    def _only_on(self, root: int, result: Array) -> Array | None:
        return result if self.rank == root else None

    def _run(self, spec: Collective, x: Any, out: Any, op: Any, root: Any, stream: Any) -> Array:
        """One call: natively if it is plainly right, else after a look at its arguments."""
        raise NotImplementedError
