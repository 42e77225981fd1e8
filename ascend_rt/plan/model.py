"""How long a call takes on one host: predicted from the rounds and bytes of its algorithm.

HCCL's model has alpha per step, beta per byte of a link, gamma per byte folded. Ranks of one host have no links: each
loads and stores memory that all share, its own as well as its peers', and where ranks outnumber the cores they take
turns. With p ranks, and n bytes in the larger buffer of the call,

    t = (rounds + 1) alpha(p) + crowd(p) n (touched beta + folded gamma)

    rounds, touched, folded    those of the algorithm (cost.as_written); entering and leaving are the one round more
    crowd(p)                   1 as long as each rank has a core, else p / cores
    alpha(p)                   alpha as long as each rank has a core, else crowd(p) switch

The mesh has the fewest rounds, touches least and folds least, in every collective: it is predicted to win whatever the
constants are. So no prediction is needed to choose on one host, and none is made then; what the model cannot know,
caches above all, `hccl-run --tune` measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .collectives import COLLECTIVES
from .cost import as_written
from .language import Option


class Work(NamedTuple):
    """What a call costs, in the units of a machine's constants."""

    waits: float
    """for ranks that have a core of their own"""
    turns: float
    """waits, times the ranks that share a core; 0 while each has one"""
    touched: float
    """bytes that a core loads and stores"""
    folded: float
    """bytes that a core folds"""


class Constants(NamedTuple):
    """What each unit of work takes on a machine."""

    alpha_us: float
    """a wait for another rank, on another core"""
    switch_us: float
    """the same for each rank of a core that ranks share"""
    beta_us_per_byte: float
    """a byte loaded or stored"""
    gamma_us_per_byte: float
    """a byte folded"""


@dataclass(frozen=True)
class Machine:
    """A host, as the model sees it."""

    cores: int
    constants: Constants

    def predicted_us(
        self, collective: str, algorithm: str, size: int, nbytes: int, options: Sequence[tuple[str, Option]] = ()
    ) -> float:
        """Microseconds of a call of `size` ranks with blocks of `nbytes` bytes."""
        return self.price(work(self.cores, collective, algorithm, size, nbytes, options))

    def price(self, amount: Work) -> float:
        """Microseconds."""
        return sum(each * constant for each, constant in zip(amount, self.constants, strict=True))


SHIPPED = Constants(alpha_us=0.25, switch_us=0.9, beta_us_per_byte=1.6e-5, gamma_us_per_byte=1.5e-4)
"""Of a host with two cores (AVX-512, shared by its virtual machine), for hosts on which nobody has measured."""


def work(
    cores: int, collective: str, algorithm: str, size: int, nbytes: int, options: Sequence[tuple[str, Option]] = ()
) -> Work:
    """What a call with blocks of `nbytes` bytes costs on so many cores."""
    spec, written = COLLECTIVES[collective], as_written(collective, algorithm, size, **dict(options))
    n = nbytes * spec.blocks(size)
    crowd = max(1.0, size / cores)
    handled = (float(crowd * n * part) for part in (written.touched, written.folded))
    return Work(*_waiting(cores, size, written.rounds + 1), *handled)


def work_of_a_round(cores: int, size: int) -> Work:
    """What a call costs that is so small that it is carried out within the round in which the ranks meet."""
    return Work(*_waiting(cores, size, 1), 0.0, 0.0)


def _waiting(cores: int, size: int, rounds: int) -> tuple[float, float]:
    return (float(rounds), 0.0) if size <= cores else (0.0, rounds * size / cores)
