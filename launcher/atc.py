"""hccl-atc: compiles the graphs of all ranks ahead of time, with no rank running, into one .om.

hccl-atc build_fn.py:build --ranks 8 --output step       build(rank, size) -> ge.Graph, called for every rank
hccl-atc ... --kernel_times times.json --link 2GB/s,5us  optimised by what a job has measured, for such links
hccl-atc --mode=1 --om=step.om --json=step.json          what is in it, as JSON
hccl-atc --mode=6 --om=step.om                           its sizes
"""

import argparse
import importlib
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

STARTS = "ATC start working now, please wait for a moment."
SUCCEEDED = "ATC run success"
FAILED = "ATC run failed, Please check the detail log, Try 'hccl-atc --help' for more information"
COMPILE, TO_JSON, SHOW = 0, 1, 6


class ArgumentError(ValueError):
    """A wrong argument, with ATC's code for it."""

    def __init__(self, argument: str, given: object, expected: str) -> None:
        super().__init__(f"E10001: {argument} is {given}; expected {expected}")


def main() -> int:
    """The entry point of hccl-atc; 0, or 1 after ATC's line of failure and the reason."""
    words = sys.argv[1:]
    given = parser().parse_args(words)
    print(STARTS)
    try:
        _run(given, words)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        print(FAILED)
        print(f"hccl-atc: {error}", file=sys.stderr)
        return 1
    print(SUCCEEDED)
    return 0


def parser() -> argparse.ArgumentParser:
    """ATC's spellings, as far as they mean something here."""
    made = argparse.ArgumentParser(
        prog="hccl-atc",
        usage="hccl-atc build_fn.py:build --ranks N --output PATH [options]  |  --mode=1|6 --om=PATH",
        description="Compile the graphs of all ranks ahead of time: checked together, memory planned, one .om.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "build", nargs="?", metavar="FILE.py:FUNCTION", help="function of (rank, size) that returns the rank's ge.Graph"
    )
    add("--ranks", type=int, metavar="N", help="ranks of the job (default: those of --cluster_config)")
    add("--cluster_config", metavar="FILE", help="JSON with a rank table, alone or as its field RankTable")
    add("--output", metavar="PATH", help="path of the .om without its suffix")
    add("--mode", type=int, default=COMPILE, help="0 compile (default), 1 an .om as JSON, 6 show what an .om needs")
    add("--om", metavar="PATH", help="with --mode: the .om to look at")
    add("--json", metavar="PATH", help="with --mode=1: where the JSON goes")
    reuse = "0 (default): buffers share memory; 1 or no value: none does"
    add("--disable_reuse_memory", nargs="?", type=int, const=1, default=0, metavar="0|1", help=reuse)
    raw = 'JSON {"compile options": {"global": {}, "session": {}, "graph": {}}} of GE options: run the passes by them'
    add("--raw_ge_options", metavar="FILE", help=raw)
    times = "what kernels take, as a job has measured it (ascend_rt.ge.kernel_times): run the passes by it"
    add("--kernel_times", metavar="FILE", help=times)
    link = "emulated links, as of hccl-run: run the passes for them (default: those of --kernel_times)"
    add("--link", metavar="LINK", help=link)
    sorting = "how nodes are listed: 0 BFS, 1 DFS, 2 RDFS, 3 as they were built (default)"
    add("--topo_sorting_mode", type=int, default=3, metavar="0..3", help=sorting)
    return made


def _run(given: argparse.Namespace, words: Sequence[str]) -> None:
    if given.mode == COMPILE:
        _compile(given, shlex.join(["hccl-atc", *words]))
    elif given.mode == TO_JSON:
        _write_json(given)
    elif given.mode == SHOW:
        _show(given)
    else:
        raise ArgumentError("--mode", given.mode, "0 (compile), 1 (JSON) or 6 (information)")


def _compile(given: argparse.Namespace, command: str) -> None:
    from ..ge.across.check import refuse_ranks
    from ..ge.memory.plan import MemoryOptions
    from ..ge.om.model import compile_model
    from ..ge.sorting import Sorting, sort_nodes

    for argument, value in (("the function to build with", given.build), ("--output", given.output)):
        if not value:
            raise ArgumentError(argument, "missing", "build_fn.py:build --ranks N --output PATH")
    if given.topo_sorting_mode not in list(Sorting):
        raise ArgumentError("--topo_sorting_mode", given.topo_sorting_mode, "0, 1, 2 or 3")
    if given.disable_reuse_memory not in (0, 1):
        raise ArgumentError("--disable_reuse_memory", given.disable_reuse_memory, "0 or 1")
    size = _ranks(given)
    build = _function(given.build)
    graphs = {rank: sort_nodes(_graph(build, rank, size), Sorting(given.topo_sorting_mode)) for rank in range(size)}
    if (given.raw_ge_options, given.kernel_times, given.link) != (None, None, None):
        refuse_ranks(graphs)  # or a pass would meet what is not there
        graphs = _optimised(given, graphs)
    options = MemoryOptions(reuse=False) if given.disable_reuse_memory else None
    model = compile_model(Path(given.output).name, graphs, options, command)
    path = Path(f"{given.output}.om")
    path.write_bytes(model.to_bytes())
    peaks = [rank.plan["peak"] for rank in model.ranks]
    print(f"{path}: {size} ranks, {model.nodes} nodes, at most {max(peaks)} bytes of planned memory on a rank")


def _ranks(given: argparse.Namespace) -> int:
    in_table = None if given.cluster_config is None else _ranks_of_table(Path(given.cluster_config))
    if given.ranks is None and in_table is None:
        raise ArgumentError("--ranks", "missing", "the number of ranks, or --cluster_config")
    if None not in (given.ranks, in_table) and given.ranks != in_table:
        raise ArgumentError("--ranks", given.ranks, f"{in_table}, as {given.cluster_config} has")
    size = given.ranks if in_table is None else in_table
    if not 1 <= size <= 4094:
        raise ArgumentError("--ranks", size, "1 to 4094")
    return int(size)


def _ranks_of_table(path: Path) -> int:
    """The devices of a rank table of version 1.x, or of the RankTable of an ATC cluster configuration."""
    try:
        form = json.loads(path.read_text())
        table = form.get("RankTable", form)
        ids = [int(device["rank_id"]) for server in table["server_list"] for device in server["device"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = "JSON with server_list[].device[].rank_id, alone or under RankTable"
        raise ArgumentError("--cluster_config", f"{path} ({type(error).__name__}: {error})", text) from None
    if sorted(ids) != list(range(len(ids))):
        raise ArgumentError("--cluster_config", f"{path} with rank_id {sorted(ids)}", "rank_id 0 to N-1, each once")
    return len(ids)


def _function(given: str) -> Callable[[int, int], Any]:
    """What `file.py:function` or `module:function` names. The file's folder is searched for what it imports, as when
    it is run; kernels that it defines are found by its name when the .om is loaded."""
    place, _, name = given.rpartition(":")
    if not place or not name:
        raise ArgumentError("the function to build with", repr(given), "FILE.py:FUNCTION or MODULE:FUNCTION")
    sys.path.insert(0, str(Path(place).parent.resolve()) if place.endswith(".py") else str(Path.cwd()))
    if place.endswith(".py") and not Path(place).is_file():
        raise ArgumentError("the function to build with", repr(given), f"a file {place}")
    module = importlib.import_module(Path(place).stem if place.endswith(".py") else place)
    function = getattr(module, name, None)
    if not callable(function):
        raise ArgumentError("the function to build with", repr(given), f"a function {name} in {place}")
    return function  # type: ignore[no-any-return]


def _optimised(given: argparse.Namespace, graphs: dict[int, Any]) -> dict[int, Any]:
    """By the passes, as they run in a job."""
    from ..ge.passes import optimise_ranks

    options = _ge_options(given.raw_ge_options)
    done = optimise_ranks(graphs, options, costs=_costs(given, graphs))
    for line in done[0].log[len(graphs[0].log) :]:
        print(f"rank 0: {line}")
    return done


def _costs(given: argparse.Namespace, graphs: dict[int, Any]) -> dict[int, Any]:
    """By rank: kernels as --kernel_times has them, calls by the measurements of the host and by --link."""
    from .. import settings
    from ..ge.costs import Costs
    from ..ge.costs_file import read_costs
    from ..hccl import tuning

    if given.kernel_times is None:
        costs = dict.fromkeys(graphs, Costs(machine=tuning.read(settings.read()).machine, ranks=len(graphs)))
    else:
        try:
            costs = read_costs(given.kernel_times, graphs)
        except ValueError as error:
            raise ArgumentError("--kernel_times", error, "what a job has measured of these graphs") from None
    if given.link is None:
        return costs
    links = _links(given.link, len(graphs))
    return {rank: replace(each, links=links) for rank, each in costs.items()}


def _links(text: str, ranks: int) -> Any:
    from ..settings import LinksOf

    try:
        links = LinksOf()(text)
    except ValueError as error:
        raise ArgumentError("--link", repr(text), str(error)) from None
    if links.highest_rank() >= ranks:
        raise ArgumentError("--link", repr(text), f"pairs of ranks 0 to {ranks - 1}")
    return links


def _ge_options(name: str | None) -> Any:
    from ..ge.options import Options

    if name is None:
        return Options()
    path = Path(name)
    try:
        levels = json.loads(path.read_text())["compile options"]
        maps = [dict(levels.get(level, {})) for level in ("graph", "session", "global")]
        wrong = [value for level in maps for value in level.values() if not isinstance(value, str)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = '{"compile options": {"global": {}, "session": {}, "graph": {}}}'
        raise ArgumentError("--raw_ge_options", f"{path} ({type(error).__name__}: {error})", text) from None
    if wrong:
        raise ArgumentError("--raw_ge_options", f"{path} with a value {wrong[0]!r}", "texts")
    return Options(*maps)


def _graph(build: Callable[[int, int], Any], rank: int, size: int) -> Any:
    from ..ge.graph import Graph

    graph = build(rank, size)
    if not isinstance(graph, Graph):
        name = getattr(build, "__name__", "build")
        raise ArgumentError(f"{name}({rank}, {size})", f"a {type(graph).__name__}", "a ge.Graph")
    return graph


# ---- looking inside ----


def _model(given: argparse.Namespace) -> tuple[Any, bytes]:
    from ..ge.om.model import Model

    if not given.om:
        raise ArgumentError("--om", "missing", "the path of an .om")
    data = Path(given.om).read_bytes()
    return Model.from_bytes(data), data


def _write_json(given: argparse.Namespace) -> None:
    model, _ = _model(given)
    if not given.json:
        raise ArgumentError("--json", "missing", "the path of the JSON to write")
    ranks = [{"graph": rank.form, "plan": rank.plan} for rank in model.ranks]
    form = {"name": model.name, "command": model.command, **asdict(model.identity), "ranks": ranks}
    Path(given.json).write_text(json.dumps(form, indent=1) + "\n")


def _show(given: argparse.Namespace) -> None:
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
