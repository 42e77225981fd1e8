"""What is wrong with the graphs of some ranks: one sentence with its details, the ranks, the nodes, and the error."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ...hccl.errors import HcclError, HcclResult
from ..nodes import Node


class Kind(StrEnum):
    """In which way graphs do not fit together."""

    GRAPH = "graph"
    """one contradicts itself: Graph.check"""
    MEMBERS = "members"
    """who is in a communicator"""
    CALLS = "calls"
    """which collectives there are, in which order, with which arguments"""
    COUNTS = "counts"
    """what one rank sends to another in a collective whose blocks differ in count"""
    MESSAGE = "message"
    """a message that only one side has, or in which the two sides differ"""
    CYCLE = "cycle"
    """ranks that would wait for one another for ever"""


class Place(NamedTuple):
    """A node of one rank's graph."""

    rank: int
    node: int
    """its id"""
    line: str

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.line or 'unknown place'}, node {self.node})"


@dataclass(frozen=True)
class Finding:
    """One way in which the graphs do not fit together. Ranks are those of the job.

    ranks    at fault as far as that can be told: those that differ from most others, else all that are concerned
    places   of the nodes that it is about; of a cycle, in the order in which one waits for the next
    text     all of it, in lines
    """

    kind: Kind
    ranks: tuple[int, ...]
    places: tuple[Place, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def place(rank: int, node: Node) -> Place:
    return Place(rank, node.id, node.line)


def where(node: Node) -> str:
    """As a statement of diag has it."""
    return f"{node.line or 'unknown place'}, node {node.id}"


def error_of(findings: Sequence[Finding]) -> HcclError:
    """What refuses graphs with such findings: HCCL_E_PARA, of all ranks at fault.

    With EI0005, which CANN's log has where ranks disagree; with E19999, its code for a graph that cannot be, where each
    alone would be right and all together would wait for ever.
    """
    ranks = sorted({rank for finding in findings for rank in finding.ranks})
    ei = "E19999" if all(finding.kind is Kind.CYCLE for finding in findings) else "EI0005"
    named = ", ".join(f"rank {rank}" for rank in ranks)
    text = "\n".join(finding.text for finding in findings)
    head = f"the graphs of the ranks do not fit together ({named})"
    return HcclError(HcclResult.HCCL_E_PARA, f"{head}\n{text}", ranks, ei)
