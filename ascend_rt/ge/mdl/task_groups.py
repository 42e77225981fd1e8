"""Task groups of captured instances by handle: ri_capture_task_*, after aclmdlRICaptureTask* of acl_rt.h."""

from typing import NamedTuple

from ...acl import device as local
from ...acl.handles import Handles
from ...acl.return_codes import integer, returns_code, returns_value_and_code
from ..capture import recorder_of
from ..task_groups import TaskGroup
from ..updating import begin, of_stream
from .running_instances import find, model_of


class Held(NamedTuple):
    """A task group and the handle of its instance."""

    model: int
    group: TaskGroup


groups: Handles[Held] = Handles("task group")


@returns_code
def ri_capture_task_grp_begin(stream: int, /) -> None:
    """What is queued on a captured stream from here on is a task group, whose tasks can be updated later.

    Kernels, copies, collectives and messages. Until its end no other stream of the capture takes tasks: 107034.
    ret: 107017, 107003; 107029: the stream is not captured; 107033: it has a group open.
    """
    held = local.find_stream(integer("stream", stream))
    recorder_of(held).begin_group(held)


@returns_value_and_code
def ri_capture_task_grp_end(stream: int, /) -> int:
    """(task group, ret): the group is complete. Its handle is good for as long as the instance is.

    107029: the stream is not captured; 107033: it has no group open.
    """
    held = local.find_stream(integer("stream", stream))
    return groups.add(Held(model_of(held), recorder_of(held).end_group(held)))


@returns_code
def ri_capture_task_update_begin(stream: int, group: int, /) -> None:
    """What is queued on a stream that is not captured, from here on, is not carried out but updates a group: as many
    tasks of the same kinds. ret: 107017: no such stream, group, or instance any more; 107026: it is captured still;
    107033: the stream is captured or updates a group, or the group is being updated."""
    held = groups.get(integer("group", group))
    begin(find(held.model), held.group, local.find_stream(integer("stream", stream)))


@returns_code
def ri_capture_task_update_end(stream: int, /) -> None:
    """The update is complete: executions of the instance from here on have the new tasks. Does not block.

    Ranks that change what they say to one another in collectives all do so before the next execution, which compares
    their graphs again. ret: 107033: no update has begun on the stream; 107040: the tasks do not fit, or something was
    queued that is no task; nothing is changed then, and acl.get_recent_err_msg says which group, node and line.
    """
    of_stream(local.find_stream(integer("stream", stream))).end()
