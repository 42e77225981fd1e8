"""Models: loading an .om and giving it back."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...acl import device as local
from ...acl.errors import AclError
from ...acl.handles import Handles
from ...acl.host_pointers import ptr_to_bytes
from ...acl.memory import DeviceMemory
from ...acl.return_codes import integer, returns_code, returns_value_and_code
from ...hccl.world import init
from ..graph import Graph
from ..nodes import Buffer, Role
from ..om.errors import ModelFileError
from ..om.load import bind, graph_of, memory_for, searched_last
from ..om.model import Model
from ..placement import Array

if TYPE_CHECKING:
    from ...acl.stream import Stream

ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID = 145002


@dataclass
class Loaded:
    """A model in memory.

    graph      without memory for its inputs and outputs, until it is executed
    bindable   those of them that may lie in memory of the caller
    memory     device memory for the others, from when it is needed first
    stream     of blocking calls
    """

    graph: Graph
    memory: DeviceMemory
    bindable: frozenset[str]
    stream: "Stream | None" = None
    own: dict[str, Array] = field(default_factory=dict)

    def own_memory(self, buffer: Buffer) -> Array:
        """The model's own for an input or output. DeviceMemoryError: there is no room."""
        if buffer.name not in self.own:
            self.own[buffer.name] = self.memory.empty((buffer.nbytes,), np.uint8)
        return self.own[buffer.name]

    @property
    def inputs(self) -> list[Buffer]:
        return buffers(self.graph, Role.INPUT)

    @property
    def outputs(self) -> list[Buffer]:
        return buffers(self.graph, Role.OUTPUT)


models: Handles[Loaded] = Handles("model")


def buffers(graph: Graph, role: Role) -> list[Buffer]:
    """Its inputs or outputs, in the order in which they were made."""
    return [buffer for buffer in graph.buffers.values() if buffer.role is role]


@returns_value_and_code
def load_from_file(path: str, /) -> int:
    """(model, ret): this rank's graph of an .om, with memory of its own.

    Where it is for several ranks, all ranks of the job call it. 145002: the file cannot be read; 545001: it is no .om
    of hccl-atc, is damaged, of another release, for another number of ranks, not the file of the other ranks, or a
    kernel has other parameters now; acl.get_recent_err_msg says which field or kernel. 207001: no room. The file's
    folder is searched for the modules of kernels, behind all others.
    """
    return _load_file(path)


@returns_value_and_code
def load_from_mem(ptr: int, size: int, /) -> int:
    """(model, ret): load_from_file, of the file's bytes in host memory, which are not needed any more then."""
    return _load(ptr_to_bytes(ptr, size))


@returns_value_and_code
def load_from_file_with_mem(path: str, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int, /) -> int:
    """(model, ret): load_from_file. The memory is not used: models have their own."""
    return _load_file(path)


@returns_value_and_code
def load_from_mem_with_mem(
    ptr: int, size: int, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int, /
) -> int:
    """(model, ret): load_from_mem. The memory is not used: models have their own."""
    return _load(ptr_to_bytes(ptr, size))


def query_size(path: str, /) -> tuple[int, int, int]:
    """(work size, weight size, ret): bytes of planned memory and of constants, of the rank that needs most."""
    sizes, ret = _sizes_of_file(path)
    return (*sizes, ret) if isinstance(sizes, tuple) else (0, 0, ret)


def query_size_from_mem(ptr: int, size: int, /) -> tuple[int, int, int]:
    """(work size, weight size, ret): query_size, of the file's bytes in host memory."""
    sizes, ret = _sizes_of_memory(ptr, size)
    return (*sizes, ret) if isinstance(sizes, tuple) else (0, 0, ret)


@returns_code
def unload(model: int, /) -> None:
    """ret: launches that are queued still run. 107017: no such model."""
    models.remove(integer("model", model)).graph.destroy()


def read(path: str) -> bytes:
    """AclError (145002): it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        text = f"ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID (145002): {error}"
        raise AclError(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, text) from None


def own_graph(data: bytes) -> Graph:
    """Of this rank, or of the only one; bound to nothing."""
    ranks = Model.from_bytes(data).ranks
    rank = 0 if len(ranks) == 1 else init().rank
    if rank >= len(ranks):
        raise ModelFileError(f"the .om is for {len(ranks)} ranks, and this is rank {rank}")
    return ranks[rank].graph


def _load_file(path: str) -> int:
    with searched_last(Path(path).parent):
        return _load(read(path))


def _load(data: bytes) -> int:
    model = Model.from_bytes(data)
    alone = len(model.ranks) == 1 and not model.ranks[0].graph.groups
    communicator = None if alone else init()
    own = model.ranks[0 if communicator is None else communicator.rank]
    later = frozenset(
        name
        for name, buffer in own.graph.buffers.items()
        if buffer.role in (Role.INPUT, Role.OUTPUT) and name not in own.offsets
    )
    memory = local.in_use().memory
    if communicator is None:
        graph = graph_of(model, 0).bind(memory_for(own, memory, later), {}, later)
    else:
        graph = bind(model, communicator, later)
        memory = communicator._memory
    written = {span.buffer for node in graph.nodes for span in node.writes}
    bindable = {name for name in later if graph.buffers[name].role is Role.OUTPUT or name not in written}
    placed = {name: graph.memory[name] for name in own.offsets}
    return models.add(Loaded(graph, memory, frozenset(bindable), own=placed))


@returns_value_and_code
def _sizes_of_file(path: str) -> tuple[int, int]:
    return _sizes(read(path))


@returns_value_and_code
def _sizes_of_memory(ptr: int, size: int) -> tuple[int, int]:
    return _sizes(ptr_to_bytes(ptr, size))


def _sizes(data: bytes) -> tuple[int, int]:
    ranks = Model.from_bytes(data).ranks
    return max(rank.plan["peak"] for rank in ranks), max(sum(map(len, rank.weights.values())) for rank in ranks)
