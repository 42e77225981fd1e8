"""hccl-atc --mode=1 and --mode=6: what is in an .om."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .atc_arguments import MISSING, ArgumentError


def write_json(given: argparse.Namespace) -> None:
    """--mode=1."""
    model, _ = _model(given)
    if not given.json:
        raise ArgumentError("--json", "missing", "the path of the JSON to write", MISSING)
    ranks = [{"graph": rank.form, "plan": rank.plan} for rank in model.ranks]
    form = {"name": model.name, "command": model.command, **asdict(model.identity), "ranks": ranks}
    Path(given.json).write_text(json.dumps(form, indent=1) + "\n")


def show(given: argparse.Namespace) -> None:
    """--mode=6."""
    from ..ge.om.header import HEAD_NBYTES, VERSION, unpack

    model, data = _model(given)
    print(f"============ Display Model Info start ============\nOriginal Atc command line: {model.command}")
    print(f"model   name[{model.name}], version[{VERSION}], rank_num[{len(model.ranks)}], node_num[{model.nodes}]")
    print(f"made by {model.identity.releases}; graph[{model.identity.graph}]")
    for kernel in model.identity.kernels:
        print(f"kernel  {kernel.function}({', '.join(kernel.parameters)}) of {kernel.file or kernel.source}")
    for number, rank in enumerate(model.ranks):
        streams = {0, *(node["stream"] for node in rank.form["nodes"])}
        events = sum(node["kind"] == "record" for node in rank.form["nodes"])
        weights = sum(map(len, rank.weights.values()))
        print(
            f"rank {number}  memory_size[{rank.plan['peak']}B], theory_min[{rank.plan['bound']}B], "
            f"weight_size[{weights}B], stream_num[{len(streams)}], event_num[{events}], "
            f"node_num[{len(rank.form['nodes'])}]"
        )
    print(f"om      {len(data)}B, header {HEAD_NBYTES}B, partitions:")
    for partition in unpack(data)[1]:
        print(f"        {partition.type.name} {len(partition.data)}B")
    print("============ Display Model Info end ============")


def _model(given: argparse.Namespace) -> tuple[Any, bytes]:
    from ..ge.om.model import Model

    if not given.om:
        raise ArgumentError("--om", "missing", "the path of an .om", MISSING)
    data = Path(given.om).read_bytes()
    return Model.from_bytes(data), data
