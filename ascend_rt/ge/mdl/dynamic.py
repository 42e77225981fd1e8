"""Dynamic batches and shapes: models have one shape each, so there are no gears to choose from.

Compile one .om for each shape. Weights of a model are its own; buffers of inputs and outputs may be shared.
"""

from typing import Any, NoReturn

from ...acl.errors import AclError
from ...acl.return_codes import integer, returns_code, returns_value_and_code
from .descriptions import descriptions
from .models import models

ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID = 145013


@returns_value_and_code
def get_dynamic_batch(desc: int, /) -> dict[str, Any]:
    """({"batchCount": 0, "batch": []}, ret): the model has its one size. 107017: no such description."""
    descriptions.get(integer("desc", desc))
    return {"batchCount": 0, "batch": []}


@returns_value_and_code
def get_dynamic_hw(desc: int, index: int, /) -> dict[str, Any]:
    """({"hwCount": 0, "hw": []}, ret): the model has its one size. 107017: no such description."""
    descriptions.get(integer("desc", desc))
    return {"hwCount": 0, "hw": []}


@returns_value_and_code
def get_input_dynamic_gear_count(desc: int, index: int, /) -> int:
    """(0, ret): the model has its one shape. 107017: no such description."""
    descriptions.get(integer("desc", desc))
    return 0


@returns_value_and_code
def get_input_dynamic_dims(desc: int, index: int, gear_count: int, /) -> list[dict[str, Any]]:
    """([], ret): the model has its one shape. 107017: no such description."""
    descriptions.get(integer("desc", desc))
    return []


@returns_code
def set_dynamic_batch_size(model: int, inputs: int, index: int, batch_size: int, /) -> None:
    """Unsupported: models have one shape each. ret: 107017: no such model; 145013: the size is no gear of it."""
    _refuse(model, f"batch size {batch_size}")


@returns_code
def set_dynamic_hw_size(model: int, inputs: int, index: int, height: int, width: int, /) -> None:
    """Unsupported: models have one shape each. ret: 107017: no such model; 145013: the size is no gear of it."""
    _refuse(model, f"image size {height} x {width}")


@returns_code
def set_input_dynamic_dims(model: int, inputs: int, index: int, dims: dict[str, Any], /) -> None:
    """Unsupported: models have one shape each. ret: 107017: no such model; 145013: the shape is no gear of it."""
    _refuse(model, f"shape {dims.get('dims')}")


def _refuse(model: int, what: str) -> NoReturn:
    shapes = ", ".join(f"{buffer.name} {list(buffer.shape)}" for buffer in models.get(integer("model", model)).inputs)
    text = f"{what}: the inputs of this model are {shapes}, and have no other sizes; compile an .om for each size"
    name = "ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID"
    raise AclError(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, f"{name} (145013): {text}")
