"""Makes docs/reference.md from docstrings: all that programs may call, each with its file.

What programs may call is what the rooms export, of classes the names without an underscore; of Stream and Event, which
carry names for the other rooms too, those that docs/streams.md speaks of.
"""

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterable
from enum import EnumType, IntEnum
from typing import Any

from ascend_rt.launcher import arguments
from docstrings import names_called_with, signature, source, source_line, text

import ascend_rt as rt
from ascend_rt import acl, hccl, settings, testing
from ascend_rt.hccl import c_api, world
from ascend_rt.hccl.manage import api as manage_api
from ascend_rt.hccl.split import api as split_api

EXPORTED = [getattr(hccl, name) for name in hccl.__all__]
NUMBERS = [*(each for each in EXPORTED if isinstance(each, EnumType)), acl.aclDataType]
STREAM = "record wait launch synchronize query"
EVENT = "query failed synchronize elapsed_ms"
HEADER = """\
# Reference

All that programs may call. This page is made from the docstrings: `python docs/make`. In an interpreter,
`help(rt.init)` shows the same.

- [ascend_rt](#ascend_rt): joining a job, arrays in device memory
- [Communicator](#communicator): the collectives as methods, which raise; [communicators.md](communicators.md) and
  [point_to_point.md](point_to_point.md) have programs
- [Stream](#stream), [Event](#event): queued calls; [streams.md](streams.md) has programs
- [Errors](#errors): what is raised; [errors.md](errors.md) has programs
- [hccl, by C names](#hccl-by-c-names): HCCL's functions, which return codes; [porting.md](porting.md) has CANN's beside
- [hccl.manage.api](#hcclmanageapi), [hccl.split.api](#hcclsplitapi): groups by name, and segments of gradients
- acl, by pyACL's names: the device runtime; [acl.md](acl.md) tells how it behaves:
  [acl](#acl), acl.rt ({nouns}), [acl.util](#aclutil)
- [Tests on N ranks](#tests-on-n-ranks); [testing.md](testing.md) has a program
- [hccl-run](#hccl-run): its options
- [Numbers](#numbers): the enums

An *array* is a NumPy array, an *address* an integer. Counts are elements, names with `nbytes` and pyACL's sizes are
bytes. The environment variables are in [settings.md](settings.md).
"""


NOUNS = sorted({inspect.unwrap(getattr(acl.rt, name)).__module__.rpartition(".")[2] for name in acl.rt.__all__})
"""acl.rt has one file for each."""

ITEMS = [hccl.Send, hccl.Recv]
EXPLANATION = [hccl.Explanation, hccl.Candidate]


def page() -> str:
    """docs/reference.md."""
    nouns = ", ".join(f"[{noun.replace('_', ' ')}](#aclrt-{noun.replace('_', '-')})" for noun in NOUNS)
    functions = [getattr(rt, name) for name in rt.__all__ if inspect.isfunction(getattr(rt, name))]
    functions.sort(key=lambda function: function.__code__.co_firstlineno)
    parts = [
        HEADER.format(nouns=nouns),
        "\n## ascend_rt\n\n`import ascend_rt as rt`\n",
        *(_entry(function) for function in functions),
        source_line({source(world)}),
        f"\n## Communicator\n\n{text(hccl.Communicator)}\n",
        *_methods(hccl.Communicator, _public(hccl.Communicator)),
        "\n## Items of batch_send_recv\n\n`from ascend_rt import hccl`\n",
        *_classes(ITEMS),
        "\n## What explain returns\n",
        *_classes(EXPLANATION),
        f"\n## Stream\n\n{text(inspect.getmodule(rt.Stream))}\n",
        *_methods(rt.Stream, STREAM.split()),
        f"\n## Event\n\n{text(rt.Event)}\n",
        *_methods(rt.Event, EVENT.split()),
        "\n## Errors\n",
        *_classes([hccl.HcclError, acl.AclError, acl.DeviceMemoryError, settings.SettingError]),
        "\n## hccl, by C names\n\n`from ascend_rt import hccl`\n",
        *_c_names(),
        *_room("hccl.manage.api", manage_api),
        *_room("hccl.split.api", split_api),
        *_acl(),
        "\n## Tests on N ranks\n\n`from ascend_rt.testing import RankPool`\n",
        *_methods(testing.RankPool, ["run", "hccl_run"]),
        "\n## hccl-run\n\n`hccl-run [options] script.py | -m module | -- program [arguments]`\n\n",
        f"{arguments.DESCRIPTION}\n{arguments.EPILOG}\n".replace("*", "\\*"),
        *_options(),
        "\n## Numbers\n",
        *(_enum(enum) for enum in NUMBERS),
    ]
    return "".join(parts)


def _c_names() -> list[str]:
    rooms = {inspect.getmodule(inspect.unwrap(function)): None for function in EXPORTED if inspect.isfunction(function)}
    conventions = [text(c_api), *(text(room) for room in rooms if room is not c_api)]
    structures = [each for each in EXPORTED if dataclasses.is_dataclass(each) and each not in (*ITEMS, *EXPLANATION)]
    return ["\n", "\n\n".join(conventions), "\n", *_classes(structures), *_functions(EXPORTED)]


def _room(name: str, room: types.ModuleType) -> list[str]:
    functions = [getattr(room, each) for each in room.__all__]
    return [f"\n## {name}\n\n{text(room)}\n", *(_entry(each) for each in functions), source_line({source(room)})]


def _acl() -> list[str]:
    exported = [getattr(acl.rt, name) for name in acl.rt.__all__]
    parts = [f"\n## acl\n\n{text(acl)}\n", *_functions(getattr(acl, name) for name in acl.__all__)]
    for noun in NOUNS:
        own = [function for function in exported if inspect.unwrap(function).__module__.endswith(f".{noun}")]
        parts += [f"\n## acl.rt: {noun.replace('_', ' ')}\n", *_functions(own)]
    parts += ["\n## acl.util\n", *_functions(getattr(acl.util, name) for name in acl.util.__all__)]
    return parts


def _options() -> list[str]:
    """A row for each option of hccl-run; what only this machine says is left out."""
    rows = ["| Option | Means |\n|---|---|\n"]
    for action in arguments.parser()._actions:
        words = " ".join([", ".join(action.option_strings), str(action.metavar or "")]).strip()
        told = re.sub(r", here \d+", "", str(action.help)).replace("%%", "%")
        rows.append(f"| `{words}` | {told} |\n")
    return [*rows, "\nSource: [`launcher/arguments.py`](../launcher/arguments.py)\n"]


def _entry(function: Callable[..., Any]) -> str:
    return f"\n### {function.__name__}\n\n    {signature(function)}\n\n{text(function)}\n"


def _methods(owner: type, names: Iterable[str]) -> list[str]:
    found = [inspect.getattr_static(owner, name) for name in names]
    routines = [member.fget if isinstance(member, property) else member for member in found]
    entries = [
        f"\n### {function.__name__}\n\n{text(function)}\n" if isinstance(member, property) else _entry(function)
        for member, function in zip(found, routines, strict=True)
    ]
    return [*entries, source_line({source(function) for function in routines})]


def _public(owner: type) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_") and inspect.isroutine(getattr(owner, name))]


def _functions(exported: Iterable[Any]) -> list[str]:
    functions = [each for each in exported if inspect.isfunction(each)]
    entries = [f"\n### {names_called_with(function)}\n\n{text(function)}\n" for function in functions]
    return [*entries, source_line({source(function) for function in functions})]


def _classes(classes: Iterable[type]) -> list[str]:
    entries = [f"\n### {_called(of)}\n\n{text(of)}\n" for of in classes]
    return [*entries, source_line({source(of) for of in classes})]


def _called(of: type) -> str:
    return of.__name__ if issubclass(of, Exception) else names_called_with(of)


def _enum(enum: EnumType) -> str:
    assert issubclass(enum, IntEnum)
    names = ", ".join(f"`{member.name}` {int(member)}" for member in enum)
    return f"\n### {enum.__name__}\n\n{text(enum)}\n\n{names}\n"
