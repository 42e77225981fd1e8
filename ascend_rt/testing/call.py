"""What each rank of a pool's job runs: finds the test's function, calls it with the communicator, leaves the result."""

import importlib.util
import pickle
import sys
from functools import reduce
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from ..hccl.world import finalize, init


def main() -> None:
    request = Path(sys.argv[1])
    call = pickle.loads(request.read_bytes())
    module: Any = _load(Path(call["file"]), call["module"])
    arguments = pickle.loads(call["arguments"])
    comm = init()
    result = reduce(getattr, call["function"].split("."), module)(comm, *arguments)
    (request.parent / f"result {comm.rank}").write_bytes(pickle.dumps(result))
    finalize()


def _load(file: Path, name: str) -> ModuleType:
    """A test file by the name that it has in the test: so it may import its neighbours (`from .rooms import door`), and
    what is pickled finds its class on the other side."""
    package = name.rpartition(".")[0]
    if package:
        _load_package(file.parent, package)
    return _module(importlib.util.spec_from_file_location(name, file))


def _load_package(folder: Path, name: str) -> None:
    outer = name.rpartition(".")[0]
    if outer:
        _load_package(folder.parent, outer)
    first = folder / "__init__.py"
    if first.is_file():
        _module(importlib.util.spec_from_file_location(name, first))
    else:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        _module(spec)


def _module(spec: ModuleSpec | None) -> ModuleType:
    assert spec is not None, "a test file ends in .py"
    if spec.name in sys.modules:
        return sys.modules[spec.name]
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if spec.loader is not None:
        spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
