"""The graph engine: a step of training as data, which is understood before it runs.

    from ascend_rt import ge

    with ge.capture(stream) as g:                 records what is queued on the stream
        ...
    g.launch(stream)                              runs it, as often as wanted
    print(g)

capture, graph              the two ways to make one; begin and end, empty, Mode
fusion                      which collectives of a capture become one
task_group, update          tasks of a capture whose arguments change between launches
Graph                       nodes, buffers and their order; see docs/graph.md
Node, Kernel, Collective... what a graph is made of
plan_memory                 where its buffers lie; see docs/memory.md
Builder                     a graph by hand, with nothing running
compile_model, load         the graphs of all ranks in one file; see docs/atc.md
optimise, optimise_ranks    the same in less time; measured, Costs, Options: what it goes by; see docs/passes.md
write_costs, read_costs     what was measured, in a file, for hccl-atc
across                      check_ranks: whether the graphs of all ranks fit together
"""

from .. import acl as _acl
from ..acl.recording import Mode
from . import mdl
from .across.check import check_ranks, refuse_ranks
from .across.finding import Finding
from .builder import Builder
from .capture import abandon, begin, capture, empty, end, graph, is_capturing, task_group
from .costs import Costs
from .costs_file import read_costs, write_costs
from .data_edges import DataEdge
from .errors import GraphMemoryError
from .fusion import fusion
from .graph import Graph
from .measure import measured
from .memory.options import MemoryOptions
from .memory.plan import MemoryPlan, allocate, plan_memory, share
from .nodes import (
    Buffer,
    Collective,
    Copy,
    Group,
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
from .om.errors import ModelFileError
from .om.load import load
from .om.model import Model, compile_model
from .options import OptionError, Options
from .order import Edge, Order, OrderError
from .passes import optimise, optimise_ranks
from .task_groups import TaskGroup
from .updating import update

__all__ = [
    "Buffer",
    "Builder",
    "Collective",
    "Copy",
    "Costs",
    "DataEdge",
    "Edge",
    "Finding",
    "Graph",
    "GraphMemoryError",
    "Group",
    "Kernel",
    "MemoryOptions",
    "MemoryPlan",
    "Memset",
    "Message",
    "Mode",
    "Model",
    "ModelFileError",
    "Node",
    "OptionError",
    "Options",
    "Order",
    "OrderError",
    "Record",
    "Role",
    "Span",
    "TaskGroup",
    "Transfer",
    "View",
    "Wait",
    "abandon",
    "allocate",
    "begin",
    "capture",
    "check_ranks",
    "compile_model",
    "empty",
    "end",
    "fusion",
    "graph",
    "is_capturing",
    "load",
    "mdl",
    "measured",
    "optimise",
    "optimise_ranks",
    "plan_memory",
    "read_costs",
    "refuse_ranks",
    "share",
    "task_group",
    "update",
    "write_costs",
]

_acl._bring("mdl", lambda: mdl)
