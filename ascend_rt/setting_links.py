"""ASCEND_RT_LINK and hccl-run --link: how fast the links between ranks are that a job pretends to have."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

RATES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_LINK = re.compile(r"(?:(\d{1,4})-(\d{1,4}):)?(\d+(?:\.\d+)?)([kMGKi]*B)/s,(\d+(?:\.\d+)?)([num]?s)")


def _in_unit(amount: float, names: tuple[str, ...], units: dict[str, float]) -> str:
    """`amount` in the first of the units of which it is at least one, else in the last."""
    name = next((name for name in names if amount >= units[name]), names[-1])
    return f"{amount / units[name]:.9g}{name}"


@dataclass(frozen=True)
class Link:
    """One link, in each of its two directions."""

    bytes_per_second: float
    latency_ns: int

    def __str__(self) -> str:
        rate = _in_unit(self.bytes_per_second, ("GB", "MB", "kB", "B"), RATES)
        return f"{rate}/s,{_in_unit(self.latency_ns, ('ms', 'us', 'ns'), TIMES)}"


@dataclass(frozen=True)
class Links:
    """The links between all ranks of a job."""

    every: Link | None
    """of all pairs that are not named; None: those are as fast as memory"""
    pairs: tuple[tuple[tuple[int, int], Link], ...] = ()
    """by pair of ranks of the job, the smaller first"""

    def between(self, rank: int, peer: int) -> Link | None:
        """The link between two ranks of the job; None: memory is all that limits."""
        return dict(self.pairs).get((min(rank, peer), max(rank, peer)), self.every) if rank != peer else None

    def costs(self, rank: int, peers: Sequence[int]) -> tuple[tuple[float, int], ...]:
        """Nanoseconds per byte and of latency of the link between `rank` and each of `peers`, ranks of the job."""
        links = [self.between(rank, peer) for peer in peers]
        return tuple((1e9 / link.bytes_per_second, link.latency_ns) if link else (0.0, 0) for link in links)

    def highest_rank(self) -> int:
        """The highest rank that is named; -1: none is."""
        return max((high for (_, high), _ in self.pairs), default=-1)

    def __str__(self) -> str:
        every = [] if self.every is None else [str(self.every)]
        return ";".join([*every, *(f"{low}-{high}:{link}" for (low, high), link in self.pairs)])


@dataclass(frozen=True)
class LinksOf:
    """Parses RATE,LATENCY for the links between all ranks and A-B:RATE,LATENCY for those of one pair, with ; between.

    A rate is a number and a unit of RATES with /s behind it, a latency a number and a unit of TIMES.
    """

    expected: str = "RATE,LATENCY as in 2GB/s,5us for all pairs of ranks, or 0-1:RATE,LATENCY for one; several with ;"

    def __call__(self, text: str) -> Links:
        every: Link | None = None
        pairs: dict[tuple[int, int], Link] = {}
        for entry in text.split(";"):
            match = _LINK.fullmatch(entry)
            if match is None or match[4] not in RATES or float(match[3]) == 0:
                raise ValueError(f"{self.expected}; {entry!r} is no link")
            link = Link(float(match[3]) * RATES[match[4]], round(float(match[5]) * TIMES[match[6]]))
            if match[1] is None:
                if every is not None:
                    raise ValueError(f"{self.expected}; {entry!r} is a second one for all pairs")
                every = link
                continue
            pair = (min(int(match[1]), int(match[2])), max(int(match[1]), int(match[2])))
            if pair[0] == pair[1] or pair in pairs:
                raise ValueError(f"{self.expected}; {entry!r} names {'a pair twice' if pair in pairs else 'one rank'}")
            pairs[pair] = link
        return Links(every, tuple(sorted(pairs.items())))
