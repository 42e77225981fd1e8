"""Kernels of an .om: what their Python text was when it was compiled, and whether it is that still.

An .om holds names of kernels and not their code, so the code may be another one when it is loaded. A digest is made of
the text of a kernel, of the functions and classes that it names, of those that they name, and of the plain values of
its module that they name; of what is installed, its own module apart, nothing. A kernel without Python text, such as
one of NumPy's, has the release of its package instead.
"""

import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from ..json_form import find_function
from ..nodes import Kernel
from .errors import ModelFileError

_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


@dataclass(frozen=True)
class KernelIdentity:
    """What a kernel was.

    function     its import name, `module:name`
    file         name of the file that has its text; "" if it has none
    parameters   in order, as in the line of its `def`, without defaults and annotations; none if it has no text
    source       SHA-256 of its text, or the release that it came with: "numpy 2.1"; "" if there is neither
    rank         the lowest one whose graph calls it
    """

    function: str
    file: str
    parameters: tuple[str, ...]
    source: str
    rank: int


def kernels_of(forms: Sequence[Mapping[str, Any]]) -> tuple[KernelIdentity, ...]:
    """Those of the graphs of all ranks, as Graph.to_json has them; they are imported."""
    first: dict[str, int] = {}
    for rank, form in enumerate(forms):
        for name in names_in(form):
            first.setdefault(name, rank)
    return tuple(identify(name, rank) for name, rank in sorted(first.items()))


def names_in(form: Mapping[str, Any]) -> set[str]:
    """The import names of the kernels of a graph."""
    return {node["task"]["function"] for node in form["nodes"] if node["kind"] == "kernel"}


def identify(name: str, rank: int) -> KernelIdentity:
    """What a kernel is now. ValueError: it cannot be imported."""
    function = find_function(name)
    try:
        texts = sorted(_texts(inspect.unwrap(function)))
        file = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").name
    except (TypeError, OSError):  # built in, or its file is gone
        return KernelIdentity(name, "", (), _release(name), rank)
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    return KernelIdentity(name, file, tuple(_parameters(function)), digest, rank)


def refuse_other_parameters(was: KernelIdentity, now: KernelIdentity, call: Kernel, again: str) -> None:
    """ModelFileError: a call of the graph means something else to the parameters that a kernel has now, or is wrong.
    Further ones with defaults are no harm. again: what to do."""
    if not was.parameters and not now.parameters:
        return
    try:
        inspect.signature(call.function).bind(*call.arguments, **call.keywords)
        fits = now.parameters[: len(was.parameters)] == was.parameters
    except TypeError:
        fits = False
    if not fits:
        given, expected = (f"({', '.join(one.parameters)})" for one in (now, was))
        name = f"kernel {was.function!r} of {now.file or 'no file'}"
        raise ModelFileError(f"{name} takes {given}; it was compiled with {expected}: {again}")


def difference(was: KernelIdentity, now: KernelIdentity) -> str:
    """A sentence on how the text of a kernel, or its release, is another one; "" if it is not."""
    if was.source == now.source:
        return ""
    if was.file and now.file:
        return f"kernel {was.function!r} of {now.file} has another text than the one that was compiled"
    has, had = (f"{one.file or one.source or 'no text'}" for one in (now, was))
    return f"kernel {was.function!r} is of {has}, and was compiled as it is in {had}"


def _texts(function: Any) -> Iterator[str]:
    pending, seen = [function], set()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield inspect.getsource(one)
        module = vars(sys.modules.get(one.__module__, one))
        for name in set(_names(one)) & set(module):
            value = module[name]
            if isinstance(value, FunctionType | type) and _counts(value, one):
                pending.append(inspect.unwrap(value))
            elif _is_plain(value):
                yield f"{name} = {value!r}"


def _names(one: Any) -> Iterator[str]:
    """What a function or class may mean of its module."""
    if isinstance(one, type):
        for value in vars(one).values():
            value = getattr(value, "__func__", value)
            if isinstance(value, FunctionType):
                yield from _names(value)
    elif isinstance(one, FunctionType):
        yield from _names_of_code(one.__code__)


def _names_of_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of_code(constant)


def _counts(value: Any, by: Any) -> bool:
    """Whether the text of what `by` names belongs to it."""
    if value.__module__ == by.__module__:
        return True
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    return file is not None and not file.startswith(_INSTALLED)


def _is_plain(value: object) -> bool:
    """Whether its repr is the same in every process."""
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | complex | str | bytes | None)


def _parameters(function: Callable[..., object]) -> list[str]:
    empty = inspect.Parameter.empty
    own = inspect.signature(function).parameters.values()
    return [str(one.replace(default=empty, annotation=empty)) for one in own]


def _release(name: str) -> str:
    package = name.partition(":")[0].partition(".")[0]
    if package in sys.stdlib_module_names:
        return f"Python {sys.version_info.major}.{sys.version_info.minor}"
    version = getattr(sys.modules[package], "__version__", "")
    return f"{package} {'.'.join(version.split('.')[:2])}" if version else ""
