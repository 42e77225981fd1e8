"""What the tasks of all ranks cost, in a file: a job that runs measures it, and hccl-atc compiles by it.

    hccl-run -n 4 -m ascend_rt.ge.kernel_times step.om times.json       by the kernels of an .om
    write_costs("times.json", graph, ge.measured(graph), comm)          by a graph of a program, with its data
    costs = read_costs("times.json", graphs)

JSON: the host's cores and constants, the emulated links and how late calls over them end, which all ranks share, and
the kernels of each rank with their microseconds. A kernel is known by the id of its node and the name of its function,
so that times of another graph are refused.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..plan.model import Constants, Machine
from ..settings import LinksOf
from .across.texts import all_texts
from .costs import Costs
from .graph import Graph
from .nodes import Kernel, Node
from .schema import Schema, check

if TYPE_CHECKING:
    from ..hccl.communicator import Communicator

FORMAT = "ascend_rt costs"
VERSION = 2
_NUMBER = (int, float)
_FORM: Schema = {
    "format": str,
    "version": int,
    "cores": int,
    "constants": dict.fromkeys(Constants._fields, _NUMBER),
    "task_us": _NUMBER,
    "link": str,
    "late": [{"ranks": [int], "us": _NUMBER}],
    "ranks": [[{"id": int, "function": str, "us": _NUMBER}]],
}


def write_costs(path: str | Path, graph: Graph, costs: Costs, communicator: "Communicator") -> None:
    """Keep what the tasks of all ranks' graphs cost: kernels of each, how late calls of each communicator end, host and
    links as rank 0 has them.

    communicator: of all ranks of the job. Blocks, like a collective; rank 0 writes. OSError on rank 0: the file
    cannot be written. HcclError as all_gather.
    """
    late = [{"ranks": ranks, "us": us} for ranks, us in costs.late_us.items()]
    texts = all_texts(communicator, json.dumps({"kernels": _kernels(graph, costs), "late": late}))
    if communicator.rank == 0:
        Path(path).write_text(_to_text(costs, [json.loads(text) for text in texts]))


def read_costs(path: str | Path, graphs: Mapping[int, Graph]) -> dict[int, Costs]:
    """By rank, what the tasks of these graphs cost by a file of `write_costs`.

    ValueError: the file is none of them, or of other graphs, with the field or the kernel that is wrong. OSError: it
    cannot be read.
    """
    form = _read_form(Path(path))
    if len(form["ranks"]) != len(graphs):
        raise ValueError(f"{path} is of {len(form['ranks'])} ranks; expected {len(graphs)}")
    machine = Machine(form["cores"], Constants(**form["constants"]))
    links = LinksOf()(form["link"]) if form["link"] else None
    late = {tuple(row["ranks"]): float(row["us"]) for row in form["late"]}
    found = {}
    for rank, graph in graphs.items():
        times = _times_of(graph, form["ranks"][rank], f"{path}: rank {rank}")
        found[rank] = Costs(times, machine, links, len(graphs), task_us=form["task_us"], late_us=late)
    return found


def _kernels(graph: Graph, costs: Costs) -> list[dict[str, Any]]:
    return [
        {"id": node.id, "function": _function_of(node), "us": costs.kernels[node.id]}
        for node in graph.of_kind("kernel")
        if node.id in costs.kernels
    ]


def _to_text(costs: Costs, measured: list[Any]) -> str:
    """One line for each kernel."""
    late = {tuple(row["ranks"]): row["us"] for of_rank in measured for row in of_rank["late"]}
    form = {
        "format": FORMAT,
        "version": VERSION,
        "cores": costs.machine.cores,
        "constants": costs.machine.constants._asdict(),
        "task_us": costs.task_us,
        "link": "" if costs.links is None else str(costs.links),
        "late": [{"ranks": ranks, "us": us} for ranks, us in sorted(late.items())],
    }
    lists = ",\n".join("[\n" + ",\n".join(map(json.dumps, of_rank["kernels"])) + "\n]" for of_rank in measured)
    return json.dumps(form)[:-1] + f',\n"ranks": [{lists}]}}\n'


def _read_form(path: Path) -> Any:
    try:
        form = json.loads(path.read_text())
        if not isinstance(form, dict) or form.get("format") != FORMAT or form.get("version") != VERSION:
            raise ValueError(f"expected an object with format {FORMAT!r} and version {VERSION}")
        check("the file", form, _FORM)
        _check_numbers(form)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} has no kernel times: {error}") from None
    return form


def _check_numbers(form: Any) -> None:
    times = [kernel["us"] for of_rank in form["ranks"] for kernel in of_rank]
    times += [row["us"] for row in form["late"]]
    for number in (*times, *form["constants"].values(), form["task_us"]):
        if not 0 <= number < math.inf:
            raise ValueError(f"a time is {number}; expected numbers from 0")
    if form["cores"] < 1:
        raise ValueError(f"cores is {form['cores']}; expected 1 or more")


def _times_of(graph: Graph, kernels: list[dict[str, Any]], where: str) -> dict[int, float]:
    own = {node.id: _function_of(node) for node in graph.of_kind("kernel")}
    for kernel in kernels:
        has = own.get(kernel["id"], "no kernel")
        if has != kernel["function"]:
            measured = f"{kernel['function']} of node {kernel['id']} was measured"
            raise ValueError(f"{where}: {measured}, and there the graph has {has}; measure this graph")
    return {kernel["id"]: float(kernel["us"]) for kernel in kernels}


def _function_of(node: Node) -> str:
    """Without its module, which is another one where a file is run instead of imported."""
    assert isinstance(node.task, Kernel)
    return getattr(node.task.function, "__qualname__", type(node.task.function).__qualname__)
