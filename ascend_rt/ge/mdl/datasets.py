"""Datasets: the buffers of a model's inputs, or of its outputs, in order."""

from ...acl.data_buffers import data_buffers
from ...acl.errors import ACL_ERROR_RT_PARAM_INVALID, AclError
from ...acl.handles import Handles
from ...acl.return_codes import integer, returns_code, returns_value_and_code

datasets: Handles[list[int]] = Handles("dataset")


def create_dataset() -> int:
    """A handle, of no buffers. No ret."""
    return datasets.add([])


@returns_code
def destroy_dataset(dataset: int, /) -> None:
    """ret; its buffers stay. 107017: no such dataset."""
    datasets.remove(integer("dataset", dataset))


@returns_value_and_code
def add_dataset_buffer(dataset: int, buffer: int, /) -> int:
    """(dataset, ret): the buffer is its next one. 107017: no such dataset or buffer."""
    data_buffers.get(integer("buffer", buffer))
    datasets.get(integer("dataset", dataset)).append(buffer)
    return dataset


def get_dataset_num_buffers(dataset: int, /) -> int:
    """How many it has; 0 if there is no such dataset. No ret."""
    return len(_buffers(dataset))


def get_dataset_buffer(dataset: int, index: int, /) -> int:
    """The handle of its buffer; 0 if it has not so many. No ret."""
    held = _buffers(dataset)
    return held[index] if 0 <= integer("index", index) < len(held) else 0


def buffers_of(name: str, dataset: int, expected: int) -> list[int]:
    """The handles of as many buffers as a model has. AclError: 107017, 107000: it has another number of them."""
    held = datasets.get(integer(name, dataset))
    if len(held) != expected:
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, f"{name} has {len(held)} buffers; expected {expected}")
    return held


def _buffers(dataset: int) -> list[int]:
    return dict(datasets.items()).get(integer("dataset", dataset), [])
