"""What each rank of a pool's job runs: finds the test's function, calls it with the communicator, leaves the result."""

import importlib.util
import pickle
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from ..hccl.world import finalize, init


def main() -> None:
    request = Path(sys.argv[1])
    file, name, arguments = pickle.loads(request.read_bytes())
    function = reduce(getattr, name.split("."), _load(Path(file)))
    comm = init()
    result: Any = function(comm, *arguments)
    (request.parent / f"result {comm.rank}").write_bytes(pickle.dumps(result))
    finalize()


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None, f"{file} is no Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
