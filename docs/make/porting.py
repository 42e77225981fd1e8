"""Makes the tables of docs/porting.md: the element types, and what has become of each function of HCCL."""

import re
from collections.abc import Callable

from docstrings import first_paragraph, names_called_with, status
from functions import COLLECTIVES, COMMUNICATORS

from ascend_rt import hccl
from ascend_rt.hccl.types import DATA_TYPE_OF_ACL, HcclDataType, dtype_of_number

METHODS = {
    "HcclAllReduce": "comm.all_reduce(x, out, op)",
    "HcclBroadcast": "comm.broadcast(x, root)",
    "HcclReduceScatter": "comm.reduce_scatter(x, out, op)",
    "HcclReduceScatterV": "comm.reduce_scatter_v(x, out, counts, op, displs)",
    "HcclScatter": "comm.scatter(x, out, root)",
    "HcclAllGather": "comm.all_gather(x, out)",
    "HcclAllGatherV": "comm.all_gather_v(x, out, counts, displs)",
    "HcclReduce": "comm.reduce(x, out, op, root)",
    "HcclAlltoAll": "comm.all_to_all(x, out)",
    "HcclAlltoAllV": "comm.all_to_all_v(x, send_counts, out, recv_counts, send_displs, recv_displs)",
    "HcclAlltoAllVC": "comm.all_to_all_vc(x, counts, out)",
    "HcclSend": "comm.send(x, dest)",
    "HcclRecv": "comm.recv(out, source)",
    "HcclBatchSendRecv": "comm.batch_send_recv([hccl.Send(x, dest), hccl.Recv(out, source)])",
    "HcclBarrier": "comm.barrier()",
    "HcclCommInitRootInfo": "rt.init()",
    "HcclCreateSubCommConfig": "comm.split(color, key)",
    "HcclCommDestroy": "comm.destroy()",
    "HcclGetRankSize": "comm.size",
    "HcclGetRankId": "comm.rank",
    "HcclGetCommName": "comm.name",
}
"""What a program in Python calls instead."""

OP_AVG = "op: also HCCL_REDUCE_AVG (4), which CANN has not."
DIFFERENCES = {
    "HcclAllReduce": OP_AVG,
    "HcclReduceScatter": OP_AVG,
    "HcclReduceScatterV": OP_AVG,
    "HcclReduce": OP_AVG,
}
"""Where CANN's function of this name does otherwise and the docstring, which tells what ours does, does not say so."""


def renew(page: str) -> str:
    """The page with its tables as they must be."""
    for name, table in (("types", types()), ("functions", functions())):
        begin, end = f"<!-- {name}: made by docs/make -->\n", f"<!-- end of {name} -->\n"
        assert page.count(begin) == 1 and page.count(end) == 1, f"docs/porting.md has no place for the table of {name}"
        before, rest = page.split(begin)
        page = f"{before}{begin}{table}{end}{rest.split(end)[1]}"
    return page


def types() -> str:
    """Both numbers of each element type."""
    rows = ["| NumPy | HcclDataType | aclDataType |\n|---|---|---|\n"]
    acl_type = {data_type: name for name, data_type in DATA_TYPE_OF_ACL.items()}
    for data_type in HcclDataType:
        other = acl_type[data_type]
        number = f"{int(other)} `{other.name}`"
        rows.append(f"| {dtype_of_number(data_type).name} | {int(data_type)} `{data_type.name}` | {number} |\n")
    return "".join(rows)


def functions() -> str:
    """Every function of HCCL's C API."""
    return f"### Collectives\n\n{_table(COLLECTIVES)}\n### Communicators\n\n{_table(COMMUNICATORS)}"


def wrong_methods(has: Callable[[str], bool]) -> list[str]:
    """Methods that are named here and that no communicator has."""
    named = [match[1] for call in METHODS.values() if (match := re.match(r"comm\.(\w+)\(", call))]
    return [name for name in named if not has(name)]


def _table(names: str) -> str:
    rows = ["| C | here | in Python | what it does here |\n|---|---|---|---|\n"]
    return "".join([*rows, *(_row(name) for name in names.split())])


def _row(name: str) -> str:
    method = f"`{METHODS[name]}`" if name in METHODS else ""
    function = getattr(hccl, name)
    told = " ".join(filter(None, [first_paragraph(function), DIFFERENCES.get(name)]))
    return f"| `{names_called_with(function)}` | {status(function)} | {method} | {told} |\n"
