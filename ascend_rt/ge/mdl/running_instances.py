"""Model running instances (ri_*): graphs that are captured from streams, by handle.

pyACL has no such calls: their names and answers are ours, after aclmdlRI* of acl_rt.h.
"""

from pathlib import Path

from ...acl import device as local
from ...acl import recording
from ...acl.constants import (
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED,
    ACL_MODEL_RI_CAPTURE_STATUS_NONE,
)
from ...acl.errors import (
    ACL_ERROR_RT_MODEL_CAPTURED,
    ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
    AclError,
)
from ...acl.handles import Handles
from ...acl.recording import Mode, Recorder
from ...acl.return_codes import integer, ranged, returns_code, returns_value_and_code
from ...acl.rt.stream import seconds_of
from ...acl.stream import Stream
from .. import capture
from ..graph import Graph
from ..recorder import Recorder as GraphRecorder

models: Handles[Graph | None] = Handles("model running instance")
_captured: dict[Recorder, int] = {}
"""The handles of instances that are captured still."""


@returns_code
def ri_capture_begin(stream: int, mode: int, /) -> None:
    """Record what is queued on a stream from here on, and carry out nothing. ret.

    mode: ACL_MODEL_RI_CAPTURE_MODE_GLOBAL (0), _THREAD_LOCAL (1), _RELAXED (2): in which threads acl.rt.memcpy, memset,
    memcpy2d and collectives that block are forbidden meanwhile: in all, in this one, in none.
    107000: no such mode; 107017, 107003: no such stream; 107027: it is captured; 107031: the default stream.
    """
    handle = integer("stream", stream)
    chosen = Mode(ranged("mode", mode, Mode.GLOBAL, Mode.RELAXED))
    owned = local.find_owned_stream(handle)
    if owned.is_default:
        text = "ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT (107031): the default stream cannot be captured; create a stream"
        raise AclError(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, text)
    capture.begin(owned.stream, chosen, "model")
    recorder = recording.recorder_of(owned.stream)
    if recorder is not None:
        _captured[recorder] = models.add(None)


def ri_capture_get_info(stream: int, /) -> tuple[int, int, int]:
    """(status, model_ri, ret): ACL_MODEL_RI_CAPTURE_STATUS_NONE (0), _ACTIVE (1), or _INVALIDATED (2) if something was
    done that a capture forbids; and the instance that is captured, 0 if none is. ret: 107017, 107003."""
    answer, ret = _info(stream)
    status, model = answer if isinstance(answer, tuple) else (ACL_MODEL_RI_CAPTURE_STATUS_NONE, 0)
    return status, model, ret


@returns_value_and_code
def ri_capture_end(stream: int, /) -> int:
    """(model_ri, ret): end a capture on the stream on which it began.

    107029: the stream is not captured; 107036: the capture began on another stream; 107038: in another thread, and not
    in mode RELAXED; these leave it going. 107025: a stream was not joined by an event; 507903: something was forbidden,
    acl.get_recent_err_msg says what and where; these end it, and there is no instance.
    """
    held = local.find_stream(integer("stream", stream))
    recorder = recording.recorder_of(held)
    try:
        model = capture.end(held)
    except AclError:
        if recorder is not None and not recording.is_recording(recorder):
            models.remove(_captured.pop(recorder))
        raise
    assert recorder is not None
    handle = _captured.pop(recorder)
    models.replace(handle, model)
    return handle


@returns_value_and_code
def ri_capture_thread_exchange_mode(mode: int, /) -> int:
    """(the calling thread's mode before, ret), which becomes `mode`: which captures it lets forbid it something, those
    of all threads (GLOBAL, at first), its own (THREAD_LOCAL), none (RELAXED). 107000: no such mode."""
    return int(recording.exchange_mode(Mode(ranged("mode", mode, Mode.GLOBAL, Mode.RELAXED))))


@returns_code
def ri_execute_async(model_ri: int, stream: int, /) -> None:
    """Queue an instance on a stream. ret: 107017, 107003; 107026: it is captured still; 107027: the stream is captured.
    What fails is the code of the stream's synchronisation."""
    model = find(model_ri)
    model.launch(local.find_stream(integer("stream", stream)))


@returns_code
def ri_execute(model_ri: int, timeout: int, /) -> None:
    """Run an instance on the default stream, and wait for it at most `timeout` ms, -1 for ever. ret: as
    ri_execute_async; the code of what failed; 507046 when the time is over: it goes on."""
    model, seconds = find(model_ri), seconds_of(integer("timeout", timeout))
    stream = local.find_stream(0)
    model.launch(stream)
    stream.synchronize(seconds)


@returns_code
def ri_abort(model_ri: int, /) -> None:
    """Stop an instance that runs: drop what is queued, as acl.rt.stream_abort does, on the streams on which it was
    executed and is not over. Returns at once; their synchronisation answers 107023 once, and it may be executed again.

    All ranks with which it exchanges data do so. ret: 107017; 107026: it is captured still.
    """
    model = find(model_ri)
    for stream in model.streams_under_way():
        stream.drop_queued()


@returns_value_and_code
def ri_get_id(model_ri: int, /) -> int:
    """(id, ret): a number that no other graph of this process has, for logs. 107017, 107026."""
    return find(model_ri).id


@returns_code
def ri_destroy(model_ri: int, /) -> None:
    """Give back what an instance holds. ret. What is queued of it still runs. 107017: none such; 107026: it is captured
    still."""
    find(model_ri).destroy()
    models.remove(model_ri)


@returns_code
def ri_set_name(model_ri: int, name: str, /) -> None:
    """Its name, for messages. ret: 107017, 107026."""
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}; expected a str")
    find(model_ri).name = name


@returns_value_and_code
def ri_get_name(model_ri: int, /) -> str:
    """(name, ret): 107017, 107026."""
    return find(model_ri).name


@returns_code
def ri_debug_print(model_ri: int, /) -> None:
    """Print an instance: its tasks by stream, its buffers. ret: 107017, 107026."""
    print(find(model_ri), flush=True)


@returns_code
def ri_debug_json_print(model_ri: int, path: str, flags: int, /) -> None:
    """Write an instance to a file as chrome://tracing and Perfetto read it: a row for each stream, tasks in order and
    without times. flags: 0, or 1 to have what each task reads and writes. ret: 107017, 107026; 107000: other flags."""
    model, verbose = find(model_ri), ranged("flags", flags, 0, 1) == 1
    Path(path).write_text(model.trace(is_verbose=verbose))


@returns_value_and_code
def _info(stream: int) -> tuple[int, int]:
    recorder = recording.recorder_of(local.find_stream(integer("stream", stream)))
    if not isinstance(recorder, GraphRecorder):
        return ACL_MODEL_RI_CAPTURE_STATUS_NONE, 0
    invalid = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
    status = invalid if recorder.why_invalid else ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
    return status, _captured.get(recorder, 0)


def model_of(stream: Stream) -> int:
    """The handle of the instance that is captured on a stream; 0: none is."""
    recorder = recording.recorder_of(stream)
    return 0 if recorder is None else _captured.get(recorder, 0)


def find(model_ri: int) -> Graph:
    """An instance whose capture has ended. AclError: 107017; 107026: it is captured still."""
    model = models.get(integer("model_ri", model_ri))
    if model is None:
        text = f"model running instance {model_ri:#x} is captured still; call ri_capture_end first"
        raise AclError(ACL_ERROR_RT_MODEL_CAPTURED, f"ACL_ERROR_RT_MODEL_CAPTURED (107026): {text}")
    return model
