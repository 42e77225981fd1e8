"""Errors of the device runtime, with the numbers of acl_rt.h.

    RuntimeError
     +-- AclError                       .code: aclError
          +-- DeviceMemoryError         also a MemoryError
"""

ACL_ERROR_RT_MEMORY_ALLOCATION = 207001
ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046
ACL_ERROR_RT_EVENT_SYNC_TIMEOUT = 507047


class AclError(RuntimeError):
    """A call of the device runtime failed; `code` is its aclError."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


class DeviceMemoryError(AclError, MemoryError):
    """Device memory could not be allocated (aclError 207001): over the budget, or no free block is large enough."""

    def __init__(self, text: str) -> None:
        super().__init__(ACL_ERROR_RT_MEMORY_ALLOCATION, f"ACL_ERROR_RT_MEMORY_ALLOCATION (207001): {text}")
