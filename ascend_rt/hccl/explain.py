"""Why a call is done as it is: what is chosen, and what every candidate is predicted to take (Communicator.explain)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..plan.choice import OPS, Row, passed_over, reason, servers_in_words
from ..plan.collectives import COLLECTIVES
from ..plan.linked import linked_us
from ..plan.model import Machine, Work, work, work_of_a_round
from . import choices
from .types import DTYPE_NAMES

if TYPE_CHECKING:
    from .communicator import Communicator

ROUND = "the round itself"
"""In the place of an algorithm: the data of a small call go with the round in which the ranks meet."""
CHOSEN = "chosen"

_NUMBERS = {name: number for number, name in DTYPE_NAMES.items()}


@dataclass(frozen=True)
class Candidate:
    """An algorithm that could do a call.

    work          what the model counts: waits, bytes touched and folded
    predicted_us  microseconds that this takes on the machine, by plan/model.py; over emulated links, with root 0, by
                  plan/linked.py
    measured_us   microseconds as hccl-run --tune has measured them, at `measured_at` bytes per block; None: it has not
    why           chosen, or why not
    """

    algorithm: str
    work: Work
    predicted_us: float
    measured_us: float | None
    measured_at: int | None
    why: str


@dataclass(frozen=True)
class Explanation:
    """How a call would be done, and why. Printed, it is a table.

    servers     how the ranks are spread, as "2 x 4"; empty if nothing is known of servers
    links       emulated links of the job, by which it is predicted (plan/linked.py); empty: none between these ranks
    machine     the constants of the prediction, those of rank 0
    algorithm   what is chosen; "the round itself" for a call so small that its data go with the round
    why         who decides: a variable, a measurement, a prediction ("emulated links"), or nobody ("default")
    from_nbytes, to_nbytes    bytes per block between which the choice is the same, both included
    candidates  from the fastest to the slowest as predicted
    """

    collective: str
    nbytes: int
    dtype: str
    op: str
    ranks: int
    servers: str
    links: str
    machine: Machine
    algorithm: str
    why: str
    predicted_us: float
    from_nbytes: int
    to_nbytes: int
    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        folded = f" {self.op}" if COLLECTIVES[self.collective].reduces else ""
        where = f"{self.ranks} ranks{self.servers and f' as {self.servers}'} on {self.machine.cores} cores"
        where += f", links {self.links}" if self.links else ""
        head = ("", "predicted us", "measured us", "waits", "touched bytes", "folded bytes", "")
        lines = [head, *map(_line, self.candidates)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        return "\n".join([
            f"{self.collective} of {self.nbytes} bytes per block, {self.dtype}{folded}, {where}",
            f"{self.algorithm} ({self.why}), predicted {self.predicted_us:.1f} us",
            *("  ".join(map(_aligned, line, widths, range(len(head)))).rstrip() for line in lines),
            ", ".join(f"{name} {value:.3g}" for name, value in self.machine.constants._asdict().items()),
        ])


def explain(comm: Communicator, collective: str, nbytes: int, dtype: npt.DTypeLike, op: str) -> Explanation:
    """See Communicator.explain."""
    if collective not in COLLECTIVES:
        raise ValueError(f"collective={collective!r}; expected one of {', '.join(COLLECTIVES)}")
    if op not in OPS:
        raise ValueError(f"op={op!r}; expected one of {', '.join(OPS)}")
    if isinstance(nbytes, bool) or not isinstance(nbytes, int | np.integer) or nbytes < 0:
        raise ValueError(f"nbytes={nbytes!r}; expected the bytes of a block, from 0")
    name, nbytes, most = _dtype_name(dtype), int(nbytes), choices.most_in_a_round(comm, collective)
    number, op_number = _NUMBERS[name], OPS.index(op)
    choice = choices.choice_for(comm, collective, nbytes, number, op_number)
    in_round = nbytes <= most
    rows = choices.candidates(comm, choice.row)
    found = [_candidate(comm, row, nbytes, _objection(comm, row, number, op_number)) for row in rows]
    found += [_in_the_round(comm)] if in_round else []
    taken = ROUND if in_round else choice.algorithm
    found = [replace(each, why=CHOSEN) if each.algorithm == taken else each for each in found]
    found.sort(key=lambda each: each.predicted_us)
    return Explanation(
        collective=collective,
        nbytes=nbytes,
        dtype=name,
        op=op,
        ranks=comm.size,
        servers=servers_in_words(comm._servers) if comm._servers else "",
        links=str(comm._settings.ascend_rt_link) if comm._wires else "",
        machine=comm._machine,
        algorithm=taken,
        why=f"its data fit {most} bytes" if in_round else reason(choice.row),
        predicted_us=next(each.predicted_us for each in found if each.why == CHOSEN),
        from_nbytes=0 if in_round else max(choice.lo_nbytes, most + 1),
        to_nbytes=most if in_round else choice.hi_nbytes,
        candidates=tuple(found),
    )


def _dtype_name(dtype: npt.DTypeLike) -> str:
    name = dtype if isinstance(dtype, str) and dtype in _NUMBERS else np.dtype(dtype).name
    if name not in _NUMBERS:
        raise ValueError(f"dtype={name}; expected one of {', '.join(_NUMBERS)}")
    return name


def _objection(comm: Communicator, row: Row, dtype: int, op: int) -> str:
    return passed_over(row, comm.size, dtype, op, strict=comm._strict)


def _candidate(comm: Communicator, row: Row, nbytes: int, why: str) -> Candidate:
    amount = work(comm._machine.cores, row.collective, row.algorithm, comm.size, nbytes, row.options)
    predicted_us = comm._machine.price(amount)
    if comm._wires:
        predicted_us = linked_us(comm._machine, comm._wires, row, nbytes)
    measured_at = None if row.measured_us is None else row.at_nbytes
    return Candidate(row.algorithm, amount, predicted_us, row.measured_us, measured_at, why)


def _in_the_round(comm: Communicator) -> Candidate:
    amount = work_of_a_round(comm._machine.cores, comm.size)
    return Candidate(ROUND, amount, comm._machine.price(amount), None, None, "")


def _line(each: Candidate) -> tuple[str, ...]:
    measured = "-" if each.measured_us is None else f"{each.measured_us:.1f} at {each.measured_at}"
    waits = f"{each.work.waits + each.work.turns:g}"
    amounts = (waits, f"{each.work.touched:.0f}", f"{each.work.folded:.0f}")
    return (each.algorithm, f"{each.predicted_us:.1f}", measured, *amounts, each.why)


def _aligned(text: str, width: int, column: int) -> str:
    """Words to the left, numbers to the right."""
    return text.rjust(width) if 0 < column < 6 else text.ljust(width)
