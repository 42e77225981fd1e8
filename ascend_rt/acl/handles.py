"""Integers for the objects and the memory that C programs name by pointers.

A handle is never used twice, not even for another kind of object, so one that was destroyed stays wrong.
"""

import bisect
import itertools
import threading
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from .errors import ACL_ERROR_RT_INVALID_HANDLE, AclError

Held = TypeVar("Held")

# Far from small integers and from addresses that a process of x86-64 or aarch64 uses.
_numbers = itertools.count(0x00AC_1000_0000_0000, 0x40)


class Handles(Generic[Held]):
    """The live objects of one kind, by handle."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._held: dict[int, Held] = {}

    def add(self, held: Held) -> int:
        """A new handle for `held`."""
        handle = next(_numbers)
        self._held[handle] = held
        return handle

    def get(self, handle: int) -> Held:
        """AclError (107017) if `handle` is none of the live ones."""
        try:
            return self._held[handle]
        except KeyError:
            raise self._unknown(handle) from None

    def reserve(self) -> int:
        """A handle that is live from `fill` on."""
        return next(_numbers)

    def fill(self, handle: int, held: Held) -> None:
        """A handle of `reserve` is one of `held` from here on."""
        self._held[handle] = held

    def replace(self, handle: int, held: Held) -> None:
        """A live handle is one of `held` from here on."""
        self.get(handle)
        self._held[handle] = held

    def remove(self, handle: int) -> Held:
        """Gives the object back; its handle is dead. AclError (107017) if it was none of the live ones."""
        try:
            return self._held.pop(handle)
        except KeyError:
            raise self._unknown(handle) from None

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        """All handles are dead."""
        self._held.clear()

    def items(self) -> list[tuple[int, Held]]:
        return list(self._held.items())

    def _unknown(self, handle: int) -> AclError:
        text = f"{self._kind} {handle:#x}: no live {self._kind} of this process has this handle; was it destroyed?"
        return AclError(ACL_ERROR_RT_INVALID_HANDLE, text)


class Live(NamedTuple):
    """A live piece of memory; whoever holds `memory`, a writable buffer, keeps it alive after free."""

    address: int
    nbytes: int
    memory: Any

    def freed_at(self, address: int) -> Any:
        """The memory if an address lies in it, once it is freed; else None."""
        return self.memory if self.address <= address < self.address + self.nbytes else None

    def array(self, address: int, dtype: "np.dtype[Any]", count: int) -> "np.ndarray[Any, Any]":
        """`count` elements at an address in it, as an array that keeps it alive."""
        view: np.ndarray[Any, Any] = np.ndarray(count, dtype, memoryview(self.memory), address - self.address)
        return view


class LiveMemory:
    """The live pieces of memory of one kind, by address."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._live: dict[int, Live] = {}
        self._lock = threading.Lock()

    def add(self, live: Live) -> None:
        with self._lock:
            bisect.insort(self._starts, live.address)
            self._live[live.address] = live

    def remove(self, address: int) -> bool:
        """Whether a live piece began at `address`; it is live no more."""
        with self._lock:
            if self._live.pop(address, None) is None:
                return False
            del self._starts[bisect.bisect_left(self._starts, address)]
            return True

    def around(self, address: int) -> Live | None:
        """The live piece that `address` lies in."""
        with self._lock:
            before = bisect.bisect_right(self._starts, address)
            live = self._live[self._starts[before - 1]] if before else None
        return live if live is not None and address < live.address + live.nbytes else None
