"""Programs run as `python` would run them: arguments, paths, modules, environment, random numbers, threads."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

SHOW = """
import json, os, sys
print(json.dumps({"argv": sys.argv, "path": sys.path[0], "file": __file__, "name": __name__, "package": __package__,
                  "spec": __spec__ and __spec__.name, "main": sys.modules["__main__"].__dict__ is globals(),
                  "cwd": os.getcwd(), "python": sys.executable}))
"""


def plain_python(*words: str | Path, cwd: Path) -> Any:
    import subprocess

    done = subprocess.run([sys.executable, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("forked", [True, False])
def test_as_plain_python(
    hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path, forked: bool
) -> None:
    """Script by relative and absolute path, module, package, folder; forked and executed."""
    script(SHOW, "programs/show.py")
    script(SHOW, "programs/package/__main__.py")
    script("", "programs/package/__init__.py")
    script(SHOW, "programs/package/inner.py")
    where = tmp_path / "programs"
    how = () if forked else ("--env", "PYTHONHASHSEED=0")
    for words, cwd in [
        (("programs/show.py", "-n", "9", "--", "--help", "-m"), tmp_path),
        ((where / "show.py", ""), Path("/")),
        (("./show.py",), where),
        (("-m", "show", "-n", "5"), where),
        (("-m", "package"), where),
        (("-m", "package.inner", "x"), where),
        (("package",), where),
    ]:
        outcome = hccl_run("--no-prefix", *how, *words, n=1, cwd=cwd)
        assert (outcome.code, outcome.err) == (0, "")
        assert json.loads(outcome.out) == plain_python(*words, cwd=cwd), words


@pytest.mark.thorough
def test_a_test_that_fails_on_one_rank(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Under pytest on every rank: the others do not wait in a barrier to which the rank that failed never comes."""
    source = """
        import ascend_rt as rt
        def test_that_fails_on_rank_1():
            comm = rt.init()
            assert comm.rank != 1
            comm.barrier()
    """
    path = script(source, "test_on_ranks.py")
    ours = ("--grace", "20", "--env", "PYTEST_ADDOPTS=")  # what this run of pytest was given is not for that one
    outcome = hccl_run(*ours, "-m", "pytest", "-q", "-rN", "-p", "no:cacheprovider", path, n=3)
    assert outcome.code == 1, outcome
    assert "[1] E       AssertionError: assert 1 != 1" in outcome.out
    assert outcome.out.count("HcclError: HCCL_E_REMOTE (21): barrier #1") == 2, outcome.out
    assert "rank 1" in outcome.err.splitlines()[-1] and "failed first" in outcome.err.splitlines()[-1]


def test_environment_of_ranks(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """hccl-run's own variables win over an outer job's; everything else arrives as it was, byte for byte."""
    source = """
        import json, os
        names = ("RANK_ID", "RANK_SIZE", "DEVICE_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                 "MASTER_ADDR", "GREETING", "EMPTY", "BYTES", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        print(json.dumps({name: os.environ.get(name) for name in names} | {"port": os.environ["MASTER_PORT"]}))
    """
    outer = {"RANK_ID": "7", "RANK_SIZE": "99", "WORLD_SIZE": "12", "RANK": "3", "MASTER_ADDR": "elsewhere"}
    odd = {"EMPTY": "", "BYTES": "\udcff\n\u00e4", "OMP_NUM_THREADS": "3"}
    outcome = hccl_run("--no-prefix", "--env", "GREETING=a=b c", script(source), env=outer | odd)
    assert outcome.code == 0
    ranks = sorted(map(json.loads, outcome.lines), key=lambda seen: seen["RANK_ID"])
    port = ranks[0].pop("port")
    assert ranks[1].pop("port") == port and 0 < int(port) < 65536
    for rank, seen in enumerate(ranks):
        me = str(rank)
        assert seen == {
            "RANK_ID": me, "RANK_SIZE": "2", "DEVICE_ID": me, "RANK": me, "LOCAL_RANK": me, "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "GREETING": "a=b c", "OPENBLAS_NUM_THREADS": None,
            **odd,
        }  # fmt: skip


def test_forked_ranks_are_warm_and_have_one_thread(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """NumPy is there before the program begins, which it is not when the rank has been executed."""
    source = """
        import os, sys
        print("numpy" in sys.modules, len(os.listdir("/proc/self/task")))
    """
    path = script(source)
    assert hccl_run("--no-prefix", path).lines == ["True 1"] * 2
    assert hccl_run("--no-prefix", "--env", "OMP_NUM_THREADS=1", path).lines == ["False 1"] * 2


def test_blas_threads_are_the_ranks_share(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    source = """
        import os, threadpoolctl
        print(os.environ["OMP_NUM_THREADS"], *{pool["num_threads"] for pool in threadpoolctl.threadpool_info()})
    """
    path, cpus = script(source), _cpus()
    assert hccl_run("--no-prefix", path, n=1).lines == [f"{cpus} {cpus}"]
    assert hccl_run("--no-prefix", path, n=2 * cpus).lines == ["1 1"] * 2 * cpus


def test_random_numbers_differ(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    source = """
        import random, uuid
        import numpy as np
        print(random.random(), np.random.rand(), np.random.default_rng().random(), uuid.uuid4())
    """
    values = [line.split() for line in hccl_run("--no-prefix", script(source), n=3).lines]
    assert all(len(set(column)) == 3 for column in zip(*values, strict=True))


def test_descriptors_of_the_launcher_stay_there(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """A rank has its three streams, the pipe of its last words and the job's memory, and can read nobody's output."""
    source = """
        import os
        paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        links = [os.readlink(path) for path in paths if os.path.lexists(path)]
        kinds = [link.partition(":")[0] for link in links]
        print(kinds.count("pipe"), kinds.count("socket"), sum("memfd" in link for link in links))
    """
    assert hccl_run("--no-prefix", script(source), n=3).lines == ["3 0 1"] * 3


def test_one_reader_of_stdin(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """What is typed goes to rank 0; the others find the end of file."""
    outcome = start_job(script("import sys; print(repr(sys.stdin.read()))"), n=2).outcome()
    assert sorted(outcome.lines) == ["[0] ''", "[1] ''"]


def test_multiprocessing_in_a_rank(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Workers of every start method find the program's functions."""
    source = """
        import multiprocessing
        def square(x):
            return x * x
        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, pool.map(square, [3, 4]))
    """
    outcome = hccl_run("--no-prefix", script(source), n=1)
    assert outcome.lines == ["fork [9, 16]", "spawn [9, 16]", "forkserver [9, 16]"]


def test_help_env_lists_every_setting(hccl_run: Callable[..., Any]) -> None:
    outcome = hccl_run("--help-env")
    assert outcome.code == 0
    assert "HCCL_EXEC_TIMEOUT" in outcome.out and "ASCEND_RT_SPIN" in outcome.out


def _cpus() -> int:
    from ascend_rt.link.limits import usable_cpus

    return usable_cpus()


def test_with_acl_a_module_beside_the_program_comes_first(
    hccl_run: Callable[..., Any], script: Callable[..., Path]
) -> None:
    script("name = 'my own'", "acl.py")
    assert hccl_run("--no-prefix", "--acl", script("import acl; print(acl.name)"), n=1).out == "my own\n"
