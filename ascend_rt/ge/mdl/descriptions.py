"""Descriptions of models: names, sizes, shapes and types of inputs and outputs.

Where pyACL has no ret, a wrong description or index gives 0 or "".
"""

from pathlib import Path
from typing import Any

from ...acl.constants import aclDataType
from ...acl.errors import ACL_ERROR_RT_PARAM_INVALID, AclError
from ...acl.handles import Handles
from ...acl.host_pointers import ptr_to_bytes
from ...acl.return_codes import integer, returns_code, returns_value_and_code
from ...hccl.types import DATA_TYPE_OF_ACL, dtype_name
from ..graph import Graph
from ..nodes import Buffer, Role
from ..om.load import searched_last
from .models import buffers, models, own_graph, read

ACL_FORMAT_ND = 2
ACL_NUMBER_OF_NAME = {dtype_name(hccl): int(number) for number, hccl in DATA_TYPE_OF_ACL.items()}
ACL_DT_UNDEFINED = int(aclDataType.ACL_DT_UNDEFINED)

descriptions: Handles[dict[Role, list[Buffer]]] = Handles("model description")


def create_desc() -> int:
    """A handle, of a description of nothing yet. No ret."""
    return descriptions.add({Role.INPUT: [], Role.OUTPUT: []})


@returns_code
def destroy_desc(desc: int, /) -> None:
    """ret. 107017: no such description."""
    descriptions.remove(integer("desc", desc))


@returns_code
def get_desc(desc: int, model: int, /) -> None:
    """It describes a model from here on. ret: 107017: no such description or model."""
    _describe(desc, models.get(integer("model", model)).graph)


@returns_code
def get_desc_from_file(desc: int, path: str, /) -> None:
    """It describes this rank's graph of an .om. ret: as load_from_file."""
    with searched_last(Path(path).parent):
        _describe(desc, own_graph(read(path)))


@returns_code
def get_desc_from_mem(desc: int, ptr: int, size: int, /) -> None:
    """The same, of the file's bytes in host memory."""
    _describe(desc, own_graph(ptr_to_bytes(ptr, size)))


def get_num_inputs(desc: int, /) -> int:
    """No ret."""
    return len(_all(desc, Role.INPUT))


def get_num_outputs(desc: int, /) -> int:
    """No ret."""
    return len(_all(desc, Role.OUTPUT))


def get_input_size_by_index(desc: int, index: int, /) -> int:
    """Bytes. No ret."""
    return _size(desc, Role.INPUT, index)


def get_output_size_by_index(desc: int, index: int, /) -> int:
    """Bytes. No ret."""
    return _size(desc, Role.OUTPUT, index)


def get_input_name_by_index(desc: int, index: int, /) -> str:
    """No ret."""
    return _name(desc, Role.INPUT, index)


def get_output_name_by_index(desc: int, index: int, /) -> str:
    """No ret."""
    return _name(desc, Role.OUTPUT, index)


def get_input_format(desc: int, index: int, /) -> int:
    """ACL_FORMAT_ND, of all. No ret."""
    return ACL_FORMAT_ND


def get_output_format(desc: int, index: int, /) -> int:
    """ACL_FORMAT_ND, of all. No ret."""
    return ACL_FORMAT_ND


def get_input_data_type(desc: int, index: int, /) -> int:
    """aclDataType. No ret."""
    return _data_type(desc, Role.INPUT, index)


def get_output_data_type(desc: int, index: int, /) -> int:
    """aclDataType. No ret."""
    return _data_type(desc, Role.OUTPUT, index)


@returns_value_and_code
def get_input_dims(desc: int, index: int, /) -> dict[str, Any]:
    """({"name", "dimCount", "dims"}, ret). 107017: no such description; 107000: no such input."""
    return _dims(desc, Role.INPUT, index)


@returns_value_and_code
def get_output_dims(desc: int, index: int, /) -> dict[str, Any]:
    """({"name", "dimCount", "dims"}, ret). 107017: no such description; 107000: no such output."""
    return _dims(desc, Role.OUTPUT, index)


get_input_dims_v2 = get_input_dims
get_cur_output_dims = get_output_dims


@returns_value_and_code
def get_input_index_by_name(desc: int, name: str, /) -> int:
    """(index, ret). 107017: no such description; 107000: no such input."""
    return _index(desc, Role.INPUT, name)


@returns_value_and_code
def get_output_index_by_name(desc: int, name: str, /) -> int:
    """(index, ret). 107017: no such description; 107000: no such output."""
    return _index(desc, Role.OUTPUT, name)


def _describe(desc: int, graph: Graph) -> None:
    own = {role: buffers(graph, role) for role in (Role.INPUT, Role.OUTPUT)}
    descriptions.replace(integer("desc", desc), own)


def _all(desc: int, role: Role) -> list[Buffer]:
    return dict(descriptions.items()).get(integer("desc", desc), {}).get(role, [])


def _at(desc: int, role: Role, index: int) -> Buffer | None:
    held = _all(desc, role)
    return held[index] if 0 <= integer("index", index) < len(held) else None


def _size(desc: int, role: Role, index: int) -> int:
    buffer = _at(desc, role, index)
    return 0 if buffer is None else buffer.nbytes


def _name(desc: int, role: Role, index: int) -> str:
    buffer = _at(desc, role, index)
    return "" if buffer is None else buffer.name


def _data_type(desc: int, role: Role, index: int) -> int:
    buffer = _at(desc, role, index)
    return ACL_DT_UNDEFINED if buffer is None else ACL_NUMBER_OF_NAME.get(buffer.dtype, ACL_DT_UNDEFINED)


def _dims(desc: int, role: Role, index: int) -> dict[str, Any]:
    descriptions.get(integer("desc", desc))
    buffer = _at(desc, role, index)
    if buffer is None:
        text = f"index={index}; the model has {len(_all(desc, role))} {role}s"
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, text)
    return {"name": buffer.name, "dimCount": len(buffer.shape), "dims": list(buffer.shape)}


def _index(desc: int, role: Role, name: str) -> int:
    held = descriptions.get(integer("desc", desc))[role]
    names = [buffer.name for buffer in held]
    if name not in names:
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, f"no {role} {name!r}; there are {', '.join(names) or 'none'}")
    return names.index(name)
