"""What hccl-atc is told of the job: its ranks, and what its communicators are made with."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from .atc_arguments import MISSING, ArgumentError, read_json


def ranks_of(given: argparse.Namespace) -> int:
    """The ranks of the job, by --ranks, or by the table of --cluster_config."""
    in_table = None if given.cluster_config is None else _ranks_of_table(Path(given.cluster_config))
    if given.ranks is None and in_table is None:
        raise ArgumentError("--ranks", "missing", "the number of ranks, or --cluster_config", MISSING)
    if None not in (given.ranks, in_table) and given.ranks != in_table:
        raise ArgumentError("--ranks", given.ranks, f"{in_table}, as {given.cluster_config} has")
    size = given.ranks if in_table is None else in_table
    if not 1 <= size <= 4094:
        raise ArgumentError("--ranks", size, "1 to 4094")
    return int(size)


def configure(given: argparse.Namespace, graphs: Mapping[int, Any]) -> None:
    """Communicators of the graphs get what --cluster_config and --hccl_sub_comm_config say of them by name, beside what
    the build function says."""
    for argument, members, config in _configs(given, len(graphs)):
        name = config["hcclCommName"]
        having = [graph for graph in graphs.values() if name in graph.groups]
        if not having:
            known = sorted({name for graph in graphs.values() for name in graph.groups})
            raise ArgumentError(argument, f"of a communicator {name!r}", f"those of the graphs: {', '.join(known)}")
        for graph in having:
            group = graph.groups[name]
            if group.world_ranks != members:
                text = f"of ranks {members} for communicator {name!r}"
                raise ArgumentError(argument, text, f"its ranks in the graphs, {group.world_ranks}")
            _refuse_conflicts(argument, name, group.config, config)
            graph.groups[name] = replace(group, config={**group.config, **config})


def _configs(given: argparse.Namespace, size: int) -> Iterator[tuple[str, tuple[int, ...], Mapping[str, Any]]]:
    """Argument, ranks of the job, and fields."""
    if given.cluster_config is not None:
        form = read_json("--cluster_config", Path(given.cluster_config))
        if "HcclCommConfig" in form:
            yield "--cluster_config", tuple(range(size)), _checked("--cluster_config", form["HcclCommConfig"])
    if given.hccl_sub_comm_config is not None:
        argument, path = "--hccl_sub_comm_config", Path(given.hccl_sub_comm_config)
        form = read_json(argument, path)
        try:
            rows = [
                (tuple(map(int, row["RankIds"])), row.get("HcclCommConfig") or row["HcclCommconfig"])
                for row in form["GroupList"]
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            text = '{"GroupList": [{"RankIds": [], "HcclCommConfig": {}}]}'
            raise ArgumentError(argument, f"{path} ({type(error).__name__}: {error})", text) from None
        for ranks, config in rows:
            yield argument, ranks, _checked(argument, config)


def _checked(argument: str, config: Any) -> Mapping[str, Any]:
    """The fields of a configuration: they exist, have values that are allowed, and a name is among them."""
    from .. import settings
    from ..hccl.config import HcclCommConfig

    if not isinstance(config, dict) or not config.get("hcclCommName"):
        raise ArgumentError(argument, f"with HcclCommConfig {config!r}", "an object with hcclCommName")
    known = {each.name: type(each.default) for each in fields(HcclCommConfig)}
    for name, value in config.items():
        if type(value) is not known.get(name):
            expected = known[name].__name__ if name in known else f"one of {', '.join(known)}"
            raise ArgumentError(argument, f"with {name}={value!r}", expected)
    try:
        HcclCommConfig(**config).apply(settings.read())
    except ValueError as error:
        raise ArgumentError(argument, f"with HcclCommConfig {config}", str(error)) from None
    return config


def _refuse_conflicts(argument: str, name: str, built: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    for field, value in config.items():
        if built.get(field, value) != value:
            text = f"{field}={value!r} for communicator {name!r}"
            raise ArgumentError(argument, text, f"{built[field]!r}, with which the build function makes it")


def _ranks_of_table(path: Path) -> int:
    """The devices of a rank table of version 1.x, or of the RankTable of an ATC cluster configuration."""
    form = read_json("--cluster_config", path)
    try:
        table = form.get("RankTable", form)
        ids = [int(device["rank_id"]) for server in table["server_list"] for device in server["device"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = "JSON with server_list[].device[].rank_id, alone or under RankTable"
        raise ArgumentError("--cluster_config", f"{path} ({type(error).__name__}: {error})", text) from None
    if sorted(ids) != list(range(len(ids))):
        raise ArgumentError("--cluster_config", f"{path} with rank_id {sorted(ids)}", "rank_id 0 to N-1, each once")
    return len(ids)
