"""Errors of the graph engine.

    DeviceMemoryError (acl)
     +-- GraphMemoryError               .code: 245000, .ei: "EL0004"
"""

from ..acl.errors import AclError, DeviceMemoryError

ACL_ERROR_GE_MEMORY_ALLOCATION = 245000


class GraphMemoryError(DeviceMemoryError):
    """A planned graph finds no room in device memory; nothing has been allocated or moved."""

    ei = "EL0004"

    def __init__(self, text: str) -> None:
        told = f"ACL_ERROR_GE_MEMORY_ALLOCATION ({ACL_ERROR_GE_MEMORY_ALLOCATION}), {self.ei}: {text}"
        AclError.__init__(self, ACL_ERROR_GE_MEMORY_ALLOCATION, told)
