"""HCCL_ENTRY_LOG_ENABLE: a communicator whose calls each write a line to the log before they begin.

    Entry-HcclBroadcast: x[0x7f001000 float32 count 6], root[1], localRank[0], comm[world], deviceLogicId[0], at[a.py:2]

Arguments that were not given are not there. Calls of other communicators stay in the core and never come by here.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..acl.stream import Stream
from ..diag.call_site import call_site
from ..diag.log import open_log
from ..plan.collectives import COLLECTIVES
from ..plan.split import NUMBERS
from ..settings import Settings
from .arguments import address_of
from .communicator import Communicator
from .transfers import TRANSFERS, Recv, Send

NAMES = {"all_to_all": "HcclAlltoAll", "all_to_all_v": "HcclAlltoAllV", "all_to_all_vc": "HcclAlltoAllVC"}
LONGEST = 80


class LoggedCommunicator(Communicator):
    """A communicator that logs each call; its methods are made below."""


def communicator_class(settings: Settings) -> type[Communicator]:
    """What a communicator of these settings is."""
    return LoggedCommunicator if settings.hccl_entry_log_enable else Communicator


def hccl_name(method: str) -> str:
    """The name that HCCL's C API has for a method."""
    return NAMES.get(method) or "Hccl" + "".join(word.capitalize() for word in method.split("_"))


def in_words(value: object) -> str:
    """An argument, short enough for a line."""
    if isinstance(value, np.ndarray):
        return f"{address_of(value):#x} {value.dtype} count {value.size}"
    if isinstance(value, Stream):
        return f"{id(value):#x}"
    if isinstance(value, Send):
        return f"send {in_words(value.x)} to {value.dest}"
    if isinstance(value, Recv):
        return f"recv {in_words(value.out)} from {value.source}"
    if isinstance(value, list | tuple) and any(isinstance(item, Send | Recv) for item in value):
        return "; ".join(map(in_words, value))
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _logged(method: str) -> Callable[..., Any]:
    run = getattr(Communicator, method)
    parameters = [name for name in inspect.signature(run).parameters if name != "self"]

    def call(self: LoggedCommunicator, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(parameters, args, strict=False)) | kwargs
        words = [f"{name}[{in_words(value)}]" for name, value in given.items()]
        words += [f"localRank[{self.rank}]", f"comm[{self.name}]", f"deviceLogicId[{self._memory.index}]"]
        open_log(self._settings).entry(f"Entry-{hccl_name(method)}: {', '.join([*words, f'at[{call_site()}]'])}")
        return run(self, *args, **kwargs)

    call.__name__, call.__doc__ = method, run.__doc__
    return call


for _method in (*COLLECTIVES, *NUMBERS, *TRANSFERS):
    setattr(LoggedCommunicator, _method, _logged(_method))
