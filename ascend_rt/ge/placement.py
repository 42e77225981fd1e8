"""Where the memory of arrays and addresses is: pieces of memory as a capture meets them, which become buffers.

An array is a view of an allocation: the block of rt.empty or acl.rt.malloc, or the array that owns host memory. Pieces
that overlap are one buffer in the end, so that no byte has two names.
"""

import bisect
import itertools
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .nodes import Span, View

Array = npt.NDArray[Any]


class Piece:
    """Bytes of this process, which are kept alive; NumPy takes it for an array of them."""

    def __init__(self, address: int, nbytes: int, keeps: Any) -> None:
        self.address, self.nbytes, self.keeps = address, nbytes, [keeps]
        self.dtype, self.shape = "uint8", (nbytes,)
        self.name = ""
        self.number = 0
        """in which order they were met"""
        self.is_own = False
        """of the graph: ge.empty"""
        self.is_read_only = False

    @property
    def end(self) -> int:
        return self.address + self.nbytes

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "data": (self.address, False), "shape": (self.nbytes,), "typestr": "|u1"}

    def array(self) -> Array:
        """Its bytes; the array keeps them alive."""
        return np.asarray(self)


class Pieces:
    """All memory that a capture has met, by address; no two overlap."""

    def __init__(self) -> None:
        self._held: list[Piece] = []
        self._numbers = itertools.count()

    def __iter__(self) -> Iterator[Piece]:
        """In the order in which they were met."""
        return iter(sorted(self._held, key=lambda piece: piece.number))

    def copy(self) -> "Pieces":
        """The same, to which others can be added."""
        made = Pieces()
        made._held, made._numbers = [*self._held], itertools.count(1 + max((p.number for p in self._held), default=-1))
        return made

    def add(self, piece: Piece) -> None:
        """Memory that something uses; what overlaps it becomes one piece with it."""
        first, last = self._places(piece)
        piece.number = next(self._numbers)
        if piece.nbytes:
            self._held[first:last] = [_union([*self._held[first:last], piece])]

    def overlapping(self, piece: Piece) -> list[Piece]:
        """Those that have bytes in common with a piece."""
        first, last = self._places(piece)
        return self._held[first:last] if piece.nbytes else []

    def has_own(self, x: Array) -> bool:
        """Whether an array lies in memory of the graph's own."""
        low, _ = bounds(x)
        return any(piece.is_own and piece.address <= low < piece.end for piece in self._held)

    def name_all(self, taken: Collection[str] = ()) -> None:
        """Those without a name get one: none of those that are taken."""
        known = {*taken, *(piece.name for piece in self._held)}
        names = (name for number in itertools.count() if (name := f"b{number}") not in known)
        for piece in self:
            piece.name = piece.name or next(names)

    def forget(self, names: Collection[str]) -> None:
        """Pieces of these names are not known any more."""
        if names:
            self._held = [piece for piece in self._held if piece.name not in names]

    def _places(self, piece: Piece) -> tuple[int, int]:
        first = bisect.bisect_right(self._held, piece.address, key=lambda held: held.end)
        return first, bisect.bisect_left(self._held, piece.end, key=lambda held: held.address)

    def around(self, address: int) -> Piece:
        """The piece that an address lies in. KeyError: none."""
        at = bisect.bisect_right(self._held, address, key=lambda held: held.address) - 1
        if at < 0 or address >= self._held[at].end:
            raise KeyError(address)
        return self._held[at]

    def span(self, address: int, nbytes: int) -> Span:
        """Bytes of a piece that has its name by now; of nothing if there are none."""
        if not nbytes:
            return Span("", 0, 0)
        piece = self.around(address)
        return Span(piece.name, address - piece.address, nbytes)

    def view(self, x: Array) -> View:
        """An array over a piece that has its name by now; it has elements."""
        piece = self.around(bounds(x)[0])
        strides = None if x.flags.c_contiguous else x.strides
        return View(piece.name, address_of(x) - piece.address, x.dtype.name, x.shape, strides, x.itemsize)


def piece_of(x: Array) -> Piece:
    """The allocation that an array is a view of."""
    root = x
    while isinstance(root.base, np.ndarray):
        root = root.base
    whole: Array = root
    if isinstance(root.base, memoryview) and root.nbytes:
        whole = np.frombuffer(root.base, np.uint8)
    low, high = bounds(whole)
    piece = Piece(low, high - low, root)
    if root.nbytes == piece.nbytes:
        piece.dtype, piece.shape = root.dtype.name, root.shape
    piece.is_read_only = not root.flags.writeable
    return piece


def bounds(x: Array) -> tuple[int, int]:
    """The addresses of its first byte and behind its last."""
    if x.size == 0:
        return address_of(x), address_of(x)
    ends = [(length - 1) * stride for length, stride in zip(x.shape, x.strides, strict=True)]
    low = address_of(x) + sum(end for end in ends if end < 0)
    return low, low + sum(abs(end) for end in ends) + x.itemsize


def address_of(x: Array) -> int:
    """Of the element with all indices 0."""
    return int(x.__array_interface__["data"][0])


def is_viewable(value: Any) -> bool:
    """Whether a value is an array that can be made again from its memory."""
    if type(value) is not np.ndarray or not value.nbytes:
        return False
    try:
        return bool(dtype_named(value.dtype.name) == value.dtype)
    except (AttributeError, TypeError):
        return False


def dtype_named(name: str) -> "np.dtype[Any]":
    """A dtype of NumPy or ml_dtypes. TypeError or AttributeError: there is none of this name."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def array_of(view: View, memory: Array) -> Array:
    """The array that a view stands for, over the bytes of its buffer."""
    made: Array = np.ndarray(view.shape, dtype_named(view.dtype), memory, view.start, view.strides)
    return made


def _union(pieces: list[Piece]) -> Piece:
    if len(pieces) == 2 and pieces[0].address <= pieces[1].address and pieces[1].end <= pieces[0].end:
        pieces[0].is_read_only = pieces[0].is_read_only and pieces[1].is_read_only
        if not any(keep is known for keep in pieces[1].keeps for known in pieces[0].keeps):
            pieces[0].keeps += pieces[1].keeps
        return pieces[0]
    if len(pieces) == 1:
        return pieces[0]
    start, end = min(piece.address for piece in pieces), max(piece.end for piece in pieces)
    union = Piece(start, end - start, [piece.keeps for piece in pieces])
    union.number = min(piece.number for piece in pieces)
    return union
