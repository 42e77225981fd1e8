"""The graph engine: a step of training as data, which is understood before it runs.

    from ascend_rt import ge                      print(graph)

Graph       nodes, buffers and their order; see docs/graph.md
nodes       what a graph is made of
across      check_ranks: whether the graphs of all ranks fit together
"""

from .across.check import check_ranks, refuse_ranks
from .across.finding import Finding
from .graph import DataEdge, Graph, Group
from .nodes import (
    Buffer,
    Collective,
    Copy,
    Kernel,
    Memset,
    Message,
    Node,
    Record,
    Role,
    Span,
    Transfer,
    View,
    Wait,
)
from .order import Edge, Order, OrderError

__all__ = [
    "Buffer",
    "Collective",
    "Copy",
    "DataEdge",
    "Edge",
    "Finding",
    "Graph",
    "Group",
    "Kernel",
    "Memset",
    "Message",
    "Node",
    "Order",
    "OrderError",
    "Record",
    "Role",
    "Span",
    "Transfer",
    "View",
    "Wait",
    "check_ranks",
    "refuse_ranks",
]
