"""What an .om was made from, and by what; whether that still holds where it is loaded.

Refused: an .om of another minor release of ascend_rt, kernels whose parameters are others. Told, or refused with
ASCEND_RT_STALE_KERNELS=refuse: kernels whose text, or whose package's release, is another one.
"""

import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import settings as settings_module
from ...diag.log import WARNING, open_log
from ..graph import Graph
from ..nodes import Kernel
from .errors import ModelFileError
from .kernels import KernelIdentity, difference, identify, kernels_of, refuse_other_parameters

REFUSE = "refuse"


@dataclass(frozen=True)
class Identity:
    """Of one file.

    graph       SHA-256 of the graphs and plans of all ranks and of their constants; source lines and logs are not in it
    made_by     releases: "ascend_rt", "python", "numpy"
    kernels     what they were, by import name
    """

    graph: str
    made_by: Mapping[str, str]
    kernels: tuple[KernelIdentity, ...]

    @property
    def releases(self) -> str:
        return ", ".join(f"{name} {release}" for name, release in self.made_by.items())


def identity_of(forms: Sequence[Mapping[str, Any]], plans: Sequence[Mapping[str, Any]], weights: bytes) -> Identity:
    """Of what is compiled now; forms: as Graph.to_json has them."""
    digest = hashlib.sha256(weights)
    for form, plan in zip(forms, plans, strict=True):
        nodes = [{**node, "line": ""} for node in form["nodes"]]
        digest.update(json.dumps([{**form, "nodes": nodes, "log": []}, plan], sort_keys=True).encode())
    return Identity(digest.hexdigest(), releases(), kernels_of(forms))


def releases() -> dict[str, str]:
    """Those that compile or load here."""
    own = importlib.metadata.version("ascend_rt")
    return {"ascend_rt": own, "python": platform.python_version(), "numpy": np.__version__}


def check_identity(identity: Identity, graph: Graph, form: Mapping[str, Any], rank: int, command: str) -> None:
    """Whether a rank may run its graph here. form: of which the graph was made. command: by which it was compiled.

    ModelFileError: another minor release of ascend_rt made it; the parameters of a kernel are others. What else is
    another one is logged, and printed by the lowest rank that is concerned; with ASCEND_RT_STALE_KERNELS=refuse it is a
    ModelFileError too.
    """
    again = f"compile it again{f' ({command})' if command else ''}"
    refuse_other_release(identity, again)
    was = {kernel.function: kernel for kernel in identity.kernels}
    now: dict[str, KernelIdentity] = {}
    for node in form["nodes"]:
        if node["kind"] == "kernel":
            name, call = node["task"]["function"], graph.by_id[node["id"]].task
            if name not in was:
                raise ModelFileError(f"kernels has no {name!r}, which the graph of rank {rank} calls")
            now[name] = now.get(name) or identify(name, was[name].rank)
            assert isinstance(call, Kernel)
            refuse_other_parameters(was[name], now[name], call, again)
    for name, kernel in now.items():
        if told := difference(was[name], kernel):
            _tell(f"{told} by {identity.releases}: {again}", is_first=rank == kernel.rank)


def _tell(text: str, *, is_first: bool) -> None:
    settings = settings_module.read()
    if settings.ascend_rt_stale_kernels == REFUSE:
        raise ModelFileError(text)
    open_log(settings).write(WARNING, text)
    if is_first:
        print(text, file=sys.stderr, flush=True)


def refuse_other_release(identity: Identity, again: str) -> None:
    """ModelFileError: the file is of another minor release of ascend_rt."""
    made, here = identity.made_by["ascend_rt"], releases()["ascend_rt"]
    if made.split(".")[:2] != here.split(".")[:2]:
        text = f"made_by is ascend_rt {made}, and this is ascend_rt {here}, which loads files of its own minor release"
        raise ModelFileError(f"{text}: {again}")
