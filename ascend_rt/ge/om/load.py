"""An .om in a job: this rank's graph over device memory and communicators, with nothing left to plan."""

import dataclasses
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...acl.memory import DeviceMemory
from ...hccl.config import HcclCommConfig
from ...hccl.groups import split
from ...hccl.world import init
from ..across.texts import all_texts
from ..graph import Graph
from .errors import ModelFileError
from .identity import check_identity
from .model import Model, RankModel, configs_of

if TYPE_CHECKING:
    from ...hccl.communicator import Communicator


def load(path: str | Path, communicator: "Communicator | None" = None) -> Graph:
    """This rank's graph of an .om, bound to memory and communicators; every rank calls it.

    communicator: of all ranks, that of rt.init() by default. Further ones that the graphs use are split off from it.
    Memory: one block of the planned size, as it was planned; arrays for inputs, outputs and constants, these with their
    values. `graph.array(name)` is the array of a buffer. Kernels: the folder of the file is searched for their modules,
    behind all others.

    ModelFileError (545001): the file is no .om of ours, is damaged, of another minor release, or for another number of
    ranks; ranks have different files; a kernel has other parameters than when it was compiled; with the field, kernel
    or rank. A kernel whose text is another one is told on stderr: see ASCEND_RT_STALE_KERNELS. DeviceMemoryError: there
    is no room.
    """
    with searched_last(Path(path).parent):
        return bind(Model.from_bytes(Path(path).read_bytes()), communicator or init())


@contextmanager
def searched_last(folder: Path) -> Iterator[None]:
    """`import` also looks there: whoever moves an .om moves the modules of its kernels with it."""
    place = str(folder.resolve())
    if place in sys.path:
        yield
        return
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)


def bind(model: Model, communicator: "Communicator", later: Collection[str] = ()) -> Graph:
    """See load. later: buffers that get their memory by Graph.rebind."""
    refuse_different_files(model, communicator)
    if len(model.ranks) != communicator.size:
        has = f"communicator {communicator.name!r} has {communicator.size}"
        raise ModelFileError(f"the .om is for {len(model.ranks)} ranks; {has}")
    graph = graph_of(model, communicator.rank)
    for name, group in graph.groups.items():
        members = tuple(communicator.world_ranks[rank] for rank in group.world_ranks)
        graph.groups[name] = dataclasses.replace(group, world_ranks=members)
    memory = memory_for(model.ranks[communicator.rank], communicator._memory, later)
    return graph.bind(memory, communicators(model, communicator), later)


def graph_of(model: Model, rank: int) -> Graph:
    """That of a rank, bound to nothing, whose kernels are what they were. ModelFileError: see load."""
    own = model.ranks[rank]
    graph = own.graph
    check_identity(model.identity, graph, own.form, rank, model.command)
    return graph


def refuse_different_files(model: Model, communicator: "Communicator") -> None:
    """ModelFileError on all ranks: they have not all loaded the same. Blocks, like a collective."""
    texts = all_texts(communicator, f"{model.name!r} ({model.identity.graph[:16]})")
    others = [rank for rank, text in enumerate(texts) if text != texts[0]]
    if others:
        has = f"rank {others[0]} has loaded {texts[others[0]]}, and rank 0 {texts[0]}"
        raise ModelFileError(f"all ranks load one .om; {has}: give them all the same file")


def memory_for(rank: RankModel, memory: DeviceMemory, later: Collection[str] = ()) -> dict[str, npt.NDArray[Any]]:
    """New device memory for all buffers but those of `later`, constants with their values."""
    block = memory.empty((max(rank.plan["peak"], 1),), np.uint8)
    made: dict[str, npt.NDArray[Any]] = {}
    for name, buffer in rank.graph.buffers.items():
        if name in rank.offsets:
            start = rank.offsets[name]
            made[name] = block[start : start + buffer.nbytes]
        elif name not in later:
            made[name] = memory.empty((buffer.nbytes,), np.uint8)
            made[name][:] = np.frombuffer(rank.weights.get(name, bytes(buffer.nbytes)), np.uint8)
    return made


def communicators(model: Model, world: "Communicator") -> "Mapping[str, Communicator]":
    """Those of this rank, by name. Blocks: all ranks make all of them, in one order."""
    own: dict[str, Communicator] = {}
    for (name, members), given in sorted(configs_of(rank.form for rank in model.ranks).items()):
        if members == tuple(range(world.size)) and not given:
            own[name] = world
            continue
        part = split(world, 0 if world.rank in members else None, _key(members, world.rank), _config(name, given))
        if part is not None:
            own[name] = part
    return own


def _key(members: Sequence[int], rank: int) -> int | None:
    return members.index(rank) if rank in members else None


def _config(name: str, given: Mapping[str, Any]) -> HcclCommConfig:
    try:
        return HcclCommConfig(**given)
    except TypeError as error:
        raise ModelFileError(f"config of communicator {name!r} is {given}: {error}") from None
