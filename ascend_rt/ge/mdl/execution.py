"""Executing a model: inputs are copied into its memory, it is launched, outputs are copied out, all on one stream."""

from collections.abc import Sequence

from ...acl import device as local
from ...acl.addresses import Range, any_range
from ...acl.data_buffers import data_buffers
from ...acl.errors import ACL_ERROR_RT_PARAM_INVALID, AclError
from ...acl.return_codes import integer, returns_code
from ...acl.stream import Stream
from ..nodes import Buffer
from ..placement import address_of
from .datasets import buffers_of
from .models import Loaded, models


@returns_code
def execute(model: int, inputs: int, outputs: int, /) -> None:
    """Run a model and wait for it. ret.

    inputs, outputs: datasets with a buffer for each, in the order of the description, of as many bytes at least, in
    device or host memory. 107017: no such model or dataset; 107000: a buffer is missing, too small, or none of ours.
    All ranks of the model call it. What fails in it is the ret, on all of them where it is a disagreement.
    """
    loaded = models.get(integer("model", model))
    if loaded.stream is None:
        loaded.stream = Stream()
    _queue(loaded, inputs, outputs, loaded.stream)
    loaded.stream.synchronize()


@returns_code
def execute_async(model: int, inputs: int, outputs: int, stream: int, /) -> None:
    """The same queued on a stream; the buffers' memory stays as it is until then. ret: as execute, and 107017, 107003
    for the stream. What fails in it comes out of the stream's synchronisation."""
    queue = local.find_stream(integer("stream", stream))
    _queue(models.get(integer("model", model)), inputs, outputs, queue)


def _queue(loaded: Loaded, inputs: int, outputs: int, stream: Stream) -> None:
    given = _ranges("inputs", inputs, loaded.inputs, writes=False)
    taken = _ranges("outputs", outputs, loaded.outputs, writes=True)
    memory = loaded.graph.memory
    for buffer, place in zip(loaded.inputs, given, strict=True):
        own = memory[buffer.name]
        stream.copy(address_of(own), place.address, buffer.nbytes, (own, place.kept))
    loaded.graph.launch(stream)
    for buffer, place in zip(loaded.outputs, taken, strict=True):
        own = memory[buffer.name]
        stream.copy(place.address, address_of(own), buffer.nbytes, (own, place.kept))


def _ranges(name: str, dataset: int, expected: Sequence[Buffer], *, writes: bool) -> list[Range]:
    found = []
    for buffer, handle in zip(expected, buffers_of(name, dataset, len(expected)), strict=True):
        held = data_buffers.get(handle)
        if held.nbytes < buffer.nbytes:
            text = f"{name}: the buffer for {buffer.name!r} has {held.nbytes} bytes; expected {buffer.nbytes}"
            raise AclError(ACL_ERROR_RT_PARAM_INVALID, text)
        found.append(any_range(f"{name}: {buffer.name}", held.address, buffer.nbytes, writes=writes))
    return found
