"""Configurations of execute_v2: how long it waits."""

from dataclasses import dataclass

from ...acl.errors import ACL_ERROR_FEATURE_UNSUPPORTED, ACL_ERROR_RT_PARAM_INVALID, AclError
from ...acl.handles import Handles
from ...acl.return_codes import integer, returns_code
from ...acl.rt.stream import seconds_of

ACL_MDL_STREAM_SYNC_TIMEOUT = 0
ACL_MDL_EVENT_SYNC_TIMEOUT = 1


@dataclass
class Configuration:
    """What a handle of create_exec_config_handle stands for."""

    timeout_ms: int = -1
    """for the stream; -1: for ever"""


configurations: Handles[Configuration] = Handles("execution configuration")


def create_exec_config_handle() -> int:
    """A handle, of a configuration that waits for ever. No ret."""
    return configurations.add(Configuration())


@returns_code
def set_exec_config_opt(handle: int, attribute: int, value: int, /) -> None:
    """ACL_MDL_STREAM_SYNC_TIMEOUT (0): how many ms execute_v2 waits, -1 for ever. ret.

    107017: no such configuration; 200006: ACL_MDL_EVENT_SYNC_TIMEOUT (1), since events of a model wait as long as those
    of all streams (acl.rt.set_op_wait_timeout); 107000: another attribute, or no such time.
    """
    held, number = configurations.get(integer("handle", handle)), integer("attribute", attribute)
    if number == ACL_MDL_EVENT_SYNC_TIMEOUT:
        text = "ACL_MDL_EVENT_SYNC_TIMEOUT: events of a model wait as long as acl.rt.set_op_wait_timeout says for all"
        raise AclError(ACL_ERROR_FEATURE_UNSUPPORTED, text)
    if number != ACL_MDL_STREAM_SYNC_TIMEOUT:
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, f"attribute={number}; expected ACL_MDL_STREAM_SYNC_TIMEOUT (0)")
    timeout = integer("value", value)
    seconds_of(timeout)
    held.timeout_ms = timeout


@returns_code
def destroy_exec_config_handle(handle: int, /) -> None:
    """ret. 107017: no such configuration."""
    configurations.remove(integer("handle", handle))


def seconds_to_wait(handle: int) -> float | None:
    """None: for ever. AclError (107017): no such configuration."""
    return seconds_of(configurations.get(integer("config", handle)).timeout_ms)
