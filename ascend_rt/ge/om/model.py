"""Model: the compiled graphs of all ranks, and how they become a file and come from one."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ..across.check import refuse_ranks
from ..graph import Graph
from ..memory.options import MemoryOptions
from ..memory.plan import plan_memory
from ..nodes import Role
from . import fields
from .errors import ModelFileError
from .header import Header, Partition, PartitionType, pack, short, unpack
from .identity import Identity, identity_of
from .kernels import KernelIdentity


@dataclass(frozen=True)
class RankModel:
    """What one rank runs.

    form      the graph, as Graph.to_json has it
    plan      memory: peak, bound, total_size, no_reuse, zero_copy in bytes, and offsets by buffer
    weights   bytes of its constants, by buffer
    """

    form: Mapping[str, Any]
    plan: Mapping[str, Any]
    weights: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def graph(self) -> Graph:
        """Imports the modules of its kernels. ModelFileError: it contradicts itself, or a kernel cannot be imported."""
        try:
            graph = Graph.from_json(json.dumps(self.form))
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise ModelFileError(f"the graph cannot be read: {error}") from None
        self._check_against(graph)
        return graph

    @property
    def offsets(self) -> dict[str, int]:
        """Where planned buffers lie in their block."""
        return {row["buffer"]: row["offset"] for row in self.plan["offsets"]}

    def _check_against(self, graph: Graph) -> None:
        for name, offset in self.offsets.items():
            buffer = graph.buffers.get(name)
            if buffer is None or not 0 <= offset <= offset + buffer.nbytes <= self.plan["peak"]:
                raise ModelFileError(f"buffer {name!r} is planned at {offset}, outside of {self.plan['peak']} bytes")
        for name, buffer in graph.buffers.items():
            if buffer.nbytes < 0 or any(length < 0 for length in buffer.shape):
                raise ModelFileError(f"buffer {name!r} has {buffer.nbytes} bytes and shape {buffer.shape}")
            if buffer.role is Role.INTERMEDIATE and buffer.on_device and name not in self.offsets:
                raise ModelFileError(f"buffer {name!r} is an intermediate one and has no place in the memory plan")
        for name, data in self.weights.items():
            if name not in graph.buffers or graph.buffers[name].nbytes != len(data):
                raise ModelFileError(f"{len(data)} bytes of weights for buffer {name!r}, which the graph has not so")


@dataclass(frozen=True)
class Model:
    """The compiled graphs of a job. command: the line by which they were compiled."""

    name: str
    ranks: tuple[RankModel, ...]
    identity: Identity
    command: str = ""

    @property
    def nodes(self) -> int:
        return sum(len(rank.form["nodes"]) for rank in self.ranks)

    def to_bytes(self) -> bytes:
        """The file. Equal weights are in it once."""
        weights, at = _gathered(self.ranks)
        job = {"name": self.name, "ranks": len(self.ranks), "command": self.command, **asdict(self.identity)}
        partitions = [Partition(PartitionType.FLOW_MODEL, _json(job))]
        for rank in self.ranks:
            rows = [
                {"buffer": name, "offset": at[data], "nbytes": len(data)} for name, data in sorted(rank.weights.items())
            ]
            form = {"graph": rank.form, "plan": rank.plan, "weights": rows}
            partitions.append(Partition(PartitionType.FLOW_SUBMODEL, _json(form)))
        partitions.append(Partition(PartitionType.WEIGHTS_DATA, weights))
        return pack(Header(self.name, self.nodes, len(self.ranks)), partitions)

    @staticmethod
    def from_bytes(data: bytes) -> "Model":
        """Imports nothing yet. ModelFileError: it is no .om of ours, is damaged or of another version, with the field
        that is wrong."""
        header, partitions = unpack(data)
        kinds = [partition.type for partition in partitions]
        between = [PartitionType.FLOW_SUBMODEL] * (len(kinds) - 2)
        expected = [PartitionType.FLOW_MODEL, *between, PartitionType.WEIGHTS_DATA]
        if kinds != expected or not header.models == len(between) > 0:
            counts = ", ".join(f"{kinds.count(kind)} {kind.name}" for kind in dict.fromkeys(kinds)) or "none"
            raise ModelFileError(f"model_num is {header.models}, and the partitions are: {counts}")
        job = fields.parse("FLOW_MODEL", partitions[0].data, fields.JOB)
        if short(job["name"]) != header.name:
            raise ModelFileError(f"name is {job['name']!r}, and {header.name!r} in the header")
        if job["ranks"] != header.models:
            raise ModelFileError(f"ranks is {job['ranks']} and model_num {header.models}")
        weights = partitions[-1].data
        ranks = tuple(_rank(rank, part.data, weights) for rank, part in enumerate(partitions[1:-1]))
        model = Model(job["name"], ranks, _identity(job), job["command"])
        if model.nodes != header.ops:
            raise ModelFileError(f"ops is {header.ops}, and the graphs have {model.nodes} nodes")
        return model


def compile_model(
    name: str, graphs: Mapping[int, Graph], options: MemoryOptions | None = None, command: str = ""
) -> Model:
    """The graphs of ranks 0, 1, ..., checked together and their memory planned; options: as of plan_memory.

    HcclError (HCCL_E_PARA): they do not fit together. ValueError: ranks are missing, a graph has what cannot be written
    down or cannot be planned, a kernel cannot be imported. ModelFileError: ranks make a communicator with different
    configurations.
    """
    if sorted(graphs) != list(range(len(graphs))) or not graphs:
        raise ValueError(f"graphs of ranks {sorted(graphs)}; expected those of ranks 0 to N-1")
    refuse_ranks(graphs)
    ranks = tuple(_compiled(graphs[rank], options) for rank in range(len(graphs)))
    configs_of(rank.form for rank in ranks)
    weights, _ = _gathered(ranks)
    identity = identity_of([rank.form for rank in ranks], [rank.plan for rank in ranks], weights)
    return Model(name, ranks, identity, command)


def configs_of(forms: Iterable[Mapping[str, Any]]) -> dict[tuple[str, tuple[int, ...]], Mapping[str, Any]]:
    """What the communicators of all ranks' graphs are made with, by name and ranks of the job. ModelFileError: ranks
    differ in it."""
    found: dict[tuple[str, tuple[int, ...]], Mapping[str, Any]] = {}
    for rank, form in enumerate(forms):
        for group in form["groups"]:
            config = found.setdefault((group["name"], tuple(group["world_ranks"])), group["config"])
            if config != group["config"]:
                text = f"communicator {group['name']!r} is made with {group['config']} on rank {rank}"
                raise ModelFileError(f"{text}, and with {config} on a lower one; expected the same")
    return found


def _compiled(graph: Graph, options: MemoryOptions | None) -> RankModel:
    plan = plan_memory(graph, options)
    numbers = {name: getattr(plan, name) for name in fields.PLAN if name != "offsets"}
    offsets = [{"buffer": name, "offset": offset} for name, offset in plan.offsets.items()]
    weights = {
        name: graph.memory[name].tobytes()
        for name, buffer in graph.buffers.items()
        if buffer.role is Role.CONSTANT and name in graph.memory
    }
    form = json.loads(graph.to_json())
    for buffer in form["buffers"]:
        buffer["address"] = None
    return RankModel(form, {**numbers, "offsets": offsets}, weights)


def _rank(rank: int, data: bytes, weights: bytes) -> RankModel:
    form = fields.parse(f"rank {rank}", data, fields.RANK)
    for row in form["weights"]:
        if not 0 <= row["offset"] <= row["offset"] + row["nbytes"] <= len(weights) or row["nbytes"] < 0:
            raise ModelFileError(f"rank {rank}: weights of {row['buffer']!r} are outside of their partition")
    own = {row["buffer"]: weights[row["offset"] : row["offset"] + row["nbytes"]] for row in form["weights"]}
    return RankModel(form["graph"], form["plan"], own)


def _identity(job: Mapping[str, Any]) -> Identity:
    kernels = [KernelIdentity(**{**row, "parameters": tuple(row["parameters"])}) for row in job["kernels"]]
    return Identity(job["graph"], job["made_by"], tuple(kernels))


def _gathered(ranks: tuple[RankModel, ...]) -> tuple[bytes, dict[bytes, int]]:
    """All weights one behind another, and where each begins."""
    at: dict[bytes, int] = {}
    end = 0
    for rank in ranks:
        for data in rank.weights.values():
            if data not in at:
                at[data] = end
                end += len(data)
    return b"".join(at), at


def _json(form: Mapping[str, Any]) -> bytes:
    return json.dumps(form, separators=(",", ":")).encode()
