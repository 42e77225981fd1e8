"""Capturing a graph: what is queued on a stream, and on streams that events tie to it, is recorded and not carried out.

    with ge.capture(stream) as g:              the graph is in g when the block ends
        ...queue on stream...
    g.launch(stream)

    @ge.graph                                  captured at the first call with such arguments, launched at every one
    def step(stream, x): ...
"""

import functools
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec

import numpy as np
import numpy.typing as npt

from ..acl import recording
from ..acl.errors import (
    ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
    ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
    ACL_ERROR_RT_STREAM_CAPTURED,
    ACL_ERROR_RT_STREAM_NOT_CAPTURED,
    AclError,
)
from ..acl.memory import Shape
from ..acl.recording import Mode
from ..acl.stream import Stream
from ..diag.call_site import call_site
from .graph import Graph
from .placement import Array, address_of
from .recorder import Recorder
from .task_groups import TaskGroup

P = ParamSpec("P")


@contextmanager
def capture(stream: Stream, mode: Mode | str = Mode.GLOBAL, name: str = "graph") -> Iterator[Graph]:
    """Record what is queued on the stream inside of the block; the graph is filled in when the block ends.

    A stream that waits for an event of a captured stream is captured too, and has to be joined: the first stream must
    wait for an event behind its last task. mode: see ge.Mode, or its name.

    AclError: the stream is captured already (107027); at the end a stream is not joined (107025), or something
    forbidden was done (507903). If the block raises, nothing is captured.
    """
    graph = Graph(name=name)
    begin(stream, mode, name)
    try:
        yield graph
    except BaseException:
        abandon(stream)
        raise
    graph._become(end(stream))


def begin(stream: Stream, mode: Mode | str = Mode.GLOBAL, name: str = "graph") -> None:
    """Record what is queued on the stream from here on, until `end`. AclError (107027): it is captured already."""
    mode = Mode[mode.upper()] if isinstance(mode, str) else Mode(mode)
    if recording.recorder_of(stream) is not None:
        text = f"the stream is captured already ({call_site()}); end that capture first"
        raise _error(ACL_ERROR_RT_STREAM_CAPTURED, "STREAM_CAPTURED", text)
    if stream.closed:
        raise RuntimeError("this stream was destroyed")
    recorder = Recorder(stream, mode, name)
    recording.begin(recorder)
    recorder.take(stream)


def end(stream: Stream) -> Graph:
    """End the capture that was begun on a stream; what it has recorded.

    AclError: the stream is not captured (107029), the capture was begun on another stream (107036) or in another
    thread, and not in mode RELAXED (107038): it goes on then; or as `capture`, and then it is over.
    """
    recorder = recorder_of(stream)
    if recorder.origin is not stream:
        text = f"a capture was ended ({call_site()}) on a stream that joined it; it began on another at {recorder.line}"
        raise _error(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "STREAM_CAPTURE_UNMATCHED", text)
    if recorder.thread != threading.get_ident() and recorder.mode is not Mode.RELAXED:
        text = f"a capture was ended ({call_site()}) in another thread than that in which it began, at {recorder.line}"
        code = ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD
        raise _error(code, "STREAM_CAPTURE_WRONG_THREAD", f"{text}; only in mode RELAXED it may be")
    recorder.end()
    return recorder.graph()


def abandon(stream: Stream) -> None:
    """End the capture of a stream, if it is captured, and forget what was recorded."""
    recorder = recording.recorder_of(stream)
    if isinstance(recorder, Recorder):
        recorder.end()


def is_capturing(stream: Stream) -> bool:
    """Whether what is queued on the stream is recorded."""
    return isinstance(recording.recorder_of(stream), Recorder)


def empty(stream: Stream, shape: Shape, dtype: npt.DTypeLike = np.float32, name: str = "") -> Array:
    """An array that belongs to the graph which is captured on the stream: for tasks of that graph, as their argument.

    It is undefined outside of a launch, and gets device memory when the graph is placed or first launched. name: of its
    buffer. AclError (107029): the stream is not captured.
    """
    x: Array = np.empty(shape, dtype)
    recorder_of(stream).own(x, name)
    return x


@contextmanager
def task_group(stream: Stream) -> Iterator[TaskGroup]:
    """What is queued inside of the block on a stream that is captured can be changed later: see ge.update.

    Kernels, copies, collectives and messages; other streams of the capture take nothing meanwhile (107034).
    AclError: the stream is not captured (107029), or has a group open already (107033).
    """
    recorder = recorder_of(stream)
    yield recorder.begin_group(stream)
    recorder.end_group(stream)


def graph(
    function: Callable[Concatenate[Stream, P], object],
) -> Callable[Concatenate[Stream, P], Graph]:
    """Have a function captured, whose first argument is the stream on which it queues.

    A call with arrays that it was not called with before captures a graph; every call launches the one for its
    arguments, and returns it. Arguments that are no arrays must be hashable.
    """
    known: dict[Hashable, tuple[Graph, Any]] = {}

    @functools.wraps(function)
    def launch(stream: Stream, /, *args: P.args, **kwargs: P.kwargs) -> Graph:
        key = tuple(map(_key, args)), tuple((name, _key(value)) for name, value in sorted(kwargs.items()))
        if key not in known:
            with capture(stream, name=function.__name__) as captured:
                function(stream, *args, **kwargs)
            known[key] = captured, (args, kwargs)  # or another array might come to lie there
        found = known[key][0]
        found.launch(stream)
        return found

    return launch


def _key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return address_of(value), value.shape, value.strides, value.dtype
    if isinstance(value, tuple | list):
        return (type(value), *map(_key, value))
    if isinstance(value, dict):
        return (dict, *((name, _key(part)) for name, part in value.items()))
    return type(value), value


def recorder_of(stream: Stream) -> Recorder:
    """Of the capture that a stream is in. AclError (107029): it is in none."""
    recorder = recording.recorder_of(stream)
    if not isinstance(recorder, Recorder):
        text = f"the stream is not captured ({call_site()})"
        raise _error(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "STREAM_NOT_CAPTURED", text)
    return recorder


def _error(code: int, name: str, text: str) -> AclError:
    return AclError(code, f"ACL_ERROR_RT_{name} ({code}): {text}")
