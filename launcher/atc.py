"""hccl-atc: compiles the graphs of all ranks ahead of time, with no rank running, into one .om.

hccl-atc build_fn.py:build --ranks 8 --output step       build(rank, size) -> ge.Graph, called for every rank
hccl-atc ... --kernel_times times.json --link 2GB/s,5us  optimised by what a job has measured, for such links
hccl-atc --mode=1 --om=step.om --json=step.json          what is in it, as JSON
hccl-atc --mode=6 --om=step.om                           its sizes
"""

import argparse
import importlib
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .atc_arguments import COMPILE, MISSING, TO_JSON, ArgumentError, parse, read_json
from .atc_cluster import configure, ranks_of
from .atc_show import show, write_json

STARTS = "ATC start working now, please wait for a moment."
SUCCEEDED = "ATC run success, welcome to the next use."
FAILED = "ATC run failed, Please check the detail log, Try 'hccl-atc --help' for more information"
FAILURE = 255
"""the exit code of ATC: -1"""


def main() -> int:
    """The entry point of hccl-atc; 0, or 255 after ATC's line of failure and the reason."""
    words = sys.argv[1:]
    if not {"-h", "--h", "-help", "--help"} & set(words):
        print(STARTS)
    try:
        _run(parse(words), words)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        print(FAILED)
        print(f"hccl-atc: {error}", file=sys.stderr)
        return FAILURE
    print(SUCCEEDED)
    return 0


def _run(given: argparse.Namespace, words: Sequence[str]) -> None:
    if given.mode == COMPILE:
        _compile(given, shlex.join(["hccl-atc", *words]))
    elif given.mode == TO_JSON:
        write_json(given)
    else:
        show(given)


def _compile(given: argparse.Namespace, command: str) -> None:
    from ..ge.across.check import refuse_ranks
    from ..ge.memory.options import MemoryOptions
    from ..ge.om.model import compile_model
    from ..ge.sorting import Sorting, sort_nodes

    for argument, value in (("the function to build with", given.build), ("--output", given.output)):
        if not value:
            raise ArgumentError(argument, "missing", "build_fn.py:build --ranks N --output PATH", MISSING)
    size = ranks_of(given)
    build = _function(given.build)
    graphs = {rank: sort_nodes(_graph(build, rank, size), Sorting(given.topo_sorting_mode)) for rank in range(size)}
    configure(given, graphs)
    if (given.raw_ge_options, given.kernel_times, given.link) != (None, None, None):
        refuse_ranks(graphs)  # or a pass would meet what is not there
        graphs = _optimised(given, graphs)
    options = MemoryOptions(reuse=False) if given.disable_reuse_memory else None
    model = compile_model(Path(given.output).name, graphs, options, command)
    path = Path(f"{given.output}.om")
    path.write_bytes(model.to_bytes())
    peaks = [rank.plan["peak"] for rank in model.ranks]
    print(f"{path}: {size} ranks, {model.nodes} nodes, at most {max(peaks)} bytes of planned memory on a rank")


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
    form = read_json("--raw_ge_options", path)
    try:
        levels = form["compile options"]
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
