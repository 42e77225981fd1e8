"""Executing a model: its inputs and outputs are the caller's device memory, where that can be; what cannot is copied.

Not bound but copied are host memory, memory that is not aligned to its elements, an output that overlaps an input or
another output, and inputs that the graph writes itself.
"""

from collections.abc import Sequence

from ...acl import device as local
from ...acl.addresses import UINT8, Range, any_range, array_at
from ...acl.data_buffers import data_buffers
from ...acl.errors import ACL_ERROR_RT_PARAM_INVALID, AclError
from ...acl.return_codes import integer, returns_code
from ...acl.stream import Stream
from ..nodes import Buffer
from ..placement import Array, address_of, dtype_named
from .configuration import seconds_to_wait
from .datasets import buffers_of
from .models import Loaded, models

Places = Sequence[tuple[Buffer, Range]]


@returns_code
def execute(model: int, inputs: int, outputs: int, /) -> None:
    """Run a model and wait for it. ret.

    inputs, outputs: datasets with a buffer for each, in the order of the description, of as many bytes at least. Device
    memory is used where it lies; host memory is copied. 107017: no such model or dataset; 107000: a buffer is missing,
    too small, or none of ours. All ranks of the model call it. What fails in it is the ret, on all of them where it is
    a disagreement.
    """
    loaded = models.get(integer("model", model))
    if loaded.stream is None:
        loaded.stream = Stream()
    _queue(loaded, inputs, outputs, loaded.stream)
    loaded.stream.synchronize()


@returns_code
def execute_v2(model: int, inputs: int, outputs: int, stream: int, config: int, /) -> None:
    """execute on a stream, and wait for that as long as the configuration says. ret: as execute_async; what has failed
    on the stream; 507046: the time is over, and the model goes on; 107017: no such configuration."""
    seconds = seconds_to_wait(config)
    queue = local.find_stream(integer("stream", stream))
    _queue(models.get(integer("model", model)), inputs, outputs, queue)
    queue.synchronize(seconds)


@returns_code
def execute_async(model: int, inputs: int, outputs: int, stream: int, /) -> None:
    """execute queued on a stream; returns at once. Datasets and buffers may be changed and destroyed then, and memory
    of acl.rt.malloc freed; what is in it stays as it is until the model has run.

    ret: as execute, and 107017, 107003 for the stream; 107027: it is captured. What fails in the model comes out of the
    stream's synchronisation.
    """
    queue = local.find_stream(integer("stream", stream))
    _queue(models.get(integer("model", model)), inputs, outputs, queue)


def _queue(loaded: Loaded, inputs: int, outputs: int, stream: Stream) -> None:
    given = _ranges("inputs", inputs, loaded.inputs, writes=False)
    taken = _ranges("outputs", outputs, loaded.outputs, writes=True)
    loaded.graph.check_may_launch(stream)
    places = [*given, *taken]
    bound = _bound(loaded, given, taken)
    own = {buffer.name: loaded.own_memory(buffer) for buffer, _ in places if buffer.name not in bound}
    loaded.graph.rebind({**bound, **own})
    for buffer, place in given:
        if buffer.name in own:
            memory = own[buffer.name]
            stream.copy(address_of(memory), place.address, buffer.nbytes, (memory, place.kept))
    loaded.graph.launch(stream, [place.kept for _, place in places])
    for buffer, place in taken:
        if buffer.name in own:
            memory = own[buffer.name]
            stream.copy(place.address, address_of(memory), buffer.nbytes, (memory, place.kept))


def _bound(loaded: Loaded, given: Places, taken: Places) -> dict[str, Array]:
    """The inputs and outputs that lie in the caller's memory, by name. Arrays that do not keep it: the launch does, and
    memory that the program has freed is given back behind it."""
    places = [*given, *taken]
    shared = {
        buffer.name
        for buffer, place in taken
        if any(_overlap(place, other) for which, other in places if which is not buffer)
    }
    return {
        buffer.name: array_at(place.address, UINT8, buffer.nbytes)
        for buffer, place in places
        if buffer.name not in shared and _fits(loaded, buffer, place)
    }


def _ranges(name: str, dataset: int, expected: Sequence[Buffer], *, writes: bool) -> Places:
    found = []
    for buffer, handle in zip(expected, buffers_of(name, dataset, len(expected)), strict=True):
        held = data_buffers.get(handle)
        if held.nbytes < buffer.nbytes:
            text = f"{name}: the buffer for {buffer.name!r} has {held.nbytes} bytes; expected {buffer.nbytes}"
            raise AclError(ACL_ERROR_RT_PARAM_INVALID, text)
        place = any_range(f"{name}: {buffer.name}", held.address, buffer.nbytes, writes=writes)
        found.append((buffer, place))
    return found


def _fits(loaded: Loaded, buffer: Buffer, place: Range) -> bool:
    is_aligned = place.address % dtype_named(buffer.dtype).itemsize == 0
    return place.on_device and place.use is None and is_aligned and buffer.name in loaded.bindable


def _overlap(place: Range, other: Range) -> bool:
    return place.address < other.address + other.nbytes and other.address < place.address + place.nbytes
