"""Which algorithm runs on real ranks: what variables ask for, rank 0's measurements, explain; and that bits stay."""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import hccl, settings
from ascend_rt.hccl import tuning
from ascend_rt.hccl.groups import Place, form
from ascend_rt.plan.choice import DTYPES, UNBOUNDED, Row, choose
from ascend_rt.plan.collectives import COLLECTIVES
from ascend_rt.plan.model import SHIPPED, Constants, Machine
from ascend_rt.plan.registry import listing, names
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

FP32 = DTYPES.index("float32")
Case = tuple[tuple[int, ...], dict[str, str], dict[str, str]]
"""The server of each rank, the environment, and what is chosen for collectives that are not done by mesh."""
TWO_BY_TWO = (0, 0, 1, 1)
REDUCING = ("all_reduce", "reduce", "reduce_scatter")


def made(comm: Any, servers: tuple[int, ...] = (), name: str = "made", rank: int | None = None, **environ: str) -> Any:
    """A communicator of all ranks of the job, on such servers, in such an environment."""
    place = Place(name, comm.rank if rank is None else rank, comm.size, servers=servers)
    return form(comm._membership, comm._memory, settings.read(environ), place, name)


def call(comm: Any, collective: str, x: Any) -> Any:
    """The result on this rank, of a copy of x, whose length is a multiple of the ranks; rank 0 is the root."""
    if collective == "barrier":
        return comm.barrier()
    if collective == "scatter":
        return comm.scatter(x if comm.rank == 0 else None, np.empty(len(x) // comm.size, x.dtype))
    return getattr(comm, collective)(x.copy())


def values(comm: Any, count: int, seed: int = 0) -> Any:
    """float32 of many magnitudes, whose sum depends on the order of its terms."""
    rng = np.random.default_rng([seed, comm.rank])
    return (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(np.float32)


# ---- what variables ask for ----


def chosen_and_right(comm: Any, cases: Sequence[Case]) -> list[dict[str, str]]:
    """What is chosen for each collective; and that every one gives the sums that whole numbers have in any order."""
    x = np.random.default_rng([1, comm.rank]).integers(-99, 99, 600 * comm.size).astype(np.float32)
    want = {name: call(comm, name, x) for name in COLLECTIVES}
    found = []
    for servers, environ, others in cases:
        group = made(comm, servers, **environ)
        for name in others:
            got = call(group, name, x)
            assert np.array_equal(got, want[name]) if got is not None else want[name] is None, (name, environ)
        how = {"table": group._table, "strict": group._strict}
        found.append({name: choose(name, comm.size, 4096, FP32, **how).algorithm for name in COLLECTIVES})
    return found


MESH = dict.fromkeys(COLLECTIVES, "mesh")
FOR_ALL = "level0:NA;level1:NB"
ONE_BY_ONE = "allreduce=level0:NA;level1:ring/allgather=level0:NA;level1:H-D_R/broadcast=level1:ring;level2:NB"


CASES: list[Case] = [
    ((), {}, {}),
    ((), {"HCCL_ALGO": FOR_ALL}, {
        "broadcast": "NB", "all_reduce": "NB", "reduce": "H-D_R", "all_gather": "NB", "reduce_scatter": "NB",
        "all_to_all": "pairwise", "scatter": "NB",
    }),
    ((), {"HCCL_ALGO": ONE_BY_ONE}, {"all_reduce": "ring", "all_gather": "H-D_R", "broadcast": "NHR"}),
    (TWO_BY_TWO, {}, {}),
    (TWO_BY_TWO, {"HCCL_ALGO": FOR_ALL}, {
        "broadcast": "mesh+NB", "all_reduce": "mesh+NB", "reduce": "mesh+H-D_R", "all_gather": "mesh+NB",
        "reduce_scatter": "mesh+NB", "all_to_all": "mesh+pairwise", "scatter": "mesh+NB",
    }),
    (TWO_BY_TWO, {"HCCL_ALGO": ONE_BY_ONE}, {
        "all_reduce": "mesh+ring", "all_gather": "mesh+H-D_R", "broadcast": "mesh+NHR",
    }),
    ((0, 1, 1, 1), {"HCCL_ALGO": FOR_ALL}, dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), "AHC")),
    ((0, 0, 0, 0), {"HCCL_ALGO": FOR_ALL}, {}),
    ((), {"HCCL_ALGO": FOR_ALL, "ASCEND_RT_ALGO": "reduce=star/gather=tree/all_reduce=mesh"}, {
        "broadcast": "NB", "reduce": "star", "all_gather": "NB", "reduce_scatter": "NB", "all_to_all": "pairwise",
        "scatter": "NB", "gather": "tree",
    }),
    (TWO_BY_TWO, {"HCCL_ALGO": "allreduce=level1:ring", "HCCL_DETERMINISTIC": "strict"}, {}),
]


def test_what_variables_ask_for(ranks: RankPool) -> None:
    for found in ranks.run(4, chosen_and_right, CASES):
        for got, (servers, environ, want) in zip(found, CASES, strict=True):
            assert got == MESH | want, (servers, environ)


def by_a_rank_table(comm: Any, path: str) -> tuple[Any, ...]:
    config = hccl.HcclCommConfig(hcclAlgo="allreduce=level0:NA;level1:NHR/broadcast=level0:NA;level1:ring")
    assert rt.acl.rt.set_device(comm.rank) == 0
    handle, code = hccl.HcclCommInitClusterInfoConfig(path, comm.rank, config)
    assert code == 0, rt.acl.get_recent_err_msg()
    group = hccl.c_conventions.communicators.get(handle)
    x = np.random.default_rng([5, comm.rank]).integers(-9, 9, 5000)
    assert np.array_equal(group.all_reduce(x.copy()), comm.all_reduce(x.copy()))
    assert np.array_equal(group.broadcast(x.copy(), root=5), comm.broadcast(x.copy(), root=5))
    found = [group.explain(name, 5000) for name in ("all_reduce", "broadcast", "all_gather")]
    return tuple((each.algorithm, each.why, each.servers) for each in found)


def test_two_servers_of_a_rank_table_reduce_inside_then_between(ranks: RankPool, tmp_path: Path) -> None:
    servers = [
        {"server_id": f"node_{n}", "device": [{"device_id": str(d), "rank_id": str(4 * n + d)} for d in range(4)]}
        for n in range(2)
    ]
    path = tmp_path / "table.json"
    path.write_text(json.dumps({
        "status": "completed", "version": "1.0", "server_count": "2", "server_list": servers
    }))  # fmt: skip
    want = (
        ("mesh+NHR", "HCCL_ALGO level1:NHR", "2 x 4"),
        ("mesh+NHR", "HCCL_ALGO level1:ring", "2 x 4"),  # HCCL broadcasts by no ring
        ("mesh", "default", "2 x 4"),
    )
    assert ranks.run(8, by_a_rank_table, str(path)) == [want] * 8


def by_its_configuration(comm: Any) -> list[str]:
    config = hccl.HcclCommConfig(hcclAlgo="allreduce=level0:NA;level1:H-D_R", hcclDeterministic=2)
    asked = hccl.HcclCommConfig(hcclAlgo="level1:ring")
    found = []
    for each in (asked, config):
        ids = list(range(comm.size))
        handle, code = hccl.HcclCreateSubCommConfig(hccl.handle_of(comm), comm.size, ids, len(found), comm.rank, each)
        assert code == 0
        found.append(hccl.c_conventions.communicators.get(handle).explain("all_reduce", 4096).algorithm)
    wrong = hccl.HcclCommConfig(hcclAlgo="level1:tree")
    _, code = hccl.HcclCreateSubCommConfig(hccl.handle_of(comm), comm.size, ids, 9, comm.rank, wrong)
    return [*found, str(code), rt.acl.get_recent_err_msg()]


def test_a_communicator_has_its_own_algorithms(ranks: RankPool) -> None:
    for ring, strict, code, said in ranks.run(3, by_its_configuration):
        assert (ring, strict, code) == ("ring", "mesh", "1")
        assert "EI0016: hcclAlgo, which stands for HCCL_ALGO, is 'level1:tree'; expected level0:NA;level1" in said
        assert "'tree' is none of the algorithms ring, H-D_R" in said


def sub_communicators(comm: Any) -> list[Any]:
    """Rows and columns of 2 x 2 ranks, and the ranks of one server and one more."""
    group = made(comm, TWO_BY_TWO, HCCL_ALGO="level1:ring")
    row, column = group.split(comm.rank // 2), group.split(comm.rank % 2)
    three = group.split(0 if comm.rank < 3 else None)
    found = [(each.servers, each.explain("all_reduce", 4096).algorithm) for each in (row, column, three) if each]
    return [*found, column.all_reduce(np.full(2000, comm.rank))[-1]]


def test_parts_of_a_communicator_know_their_servers(ranks: RankPool) -> None:
    pair = [((0, 0), "mesh"), ((0, 1), "mesh+ring")]
    for rank, found in enumerate(ranks.run(4, sub_communicators)):
        assert found == [*pair, *([((0, 0, 1), "AHC")] if rank < 3 else []), 2 + 2 * (rank % 2)]


def unknown_names(comm: Any, text: str) -> str:
    with pytest.raises(settings.SettingError) as raised:
        made(comm, ASCEND_RT_ALGO=text)
    os.environ["ASCEND_RT_ALGO"] = text
    assert hccl.HcclGetRootInfo() == (0, hccl.HcclResult.HCCL_E_PARA)
    assert rt.acl.get_recent_err_msg() == str(raised.value)
    return str(raised.value)


def test_a_name_that_does_not_exist_is_told_with_those_that_do(ranks: RankPool) -> None:
    (said,) = ranks.run(1, unknown_names, "all_reduce=star")
    assert said.startswith("EI0001: environment variable ASCEND_RT_ALGO is 'all_reduce=star'; expected collectives")
    assert "'star' of 'all_reduce': expected one of AHC, H-D_R, NB, NHR, mesh" in said


# ---- rank 0's measurements ----

MEASURED = Constants(alpha_us=0.5, switch_us=4.0, beta_us_per_byte=2e-4, gamma_us_per_byte=3e-4)


def measured_on_one_rank(comm: Any, folder: str) -> tuple[Any, ...]:
    """Every rank has its own cache folder; only that of rank 2 of the job has measurements of another algorithm."""
    own = settings.read({"XDG_CACHE_HOME": f"{folder}/{comm.rank}"})
    size = comm.size
    rows = (Row("all_reduce", "ring", (size, size), (2000, 9999), at_nbytes=4096, measured_us=12.5),)
    if comm.rank != 1:
        tuning.write(own, tuning.Tuning(Machine(7, MEASURED), rows if comm.rank == 2 else ()))
    comm.barrier()
    turned = made(comm, (), "turned", (comm.rank + 1) % size, XDG_CACHE_HOME=f"{folder}/{comm.rank}")
    without = made(comm, (), "none", (comm.rank + 2) % size, XDG_CACHE_HOME=f"{folder}/{comm.rank}")
    x = values(comm, 1000)
    for group in (turned, without):
        want = np.add.reduce(comm.all_gather(x), dtype=np.float64)
        assert np.allclose(group.all_reduce(x.copy()), want, rtol=1e-3, atol=1e-2)
    found = turned.explain("all_reduce", 4000)
    near = [turned.explain("all_reduce", nbytes).algorithm for nbytes in (1999, 2000, 9999, 10000)]
    halves = turned.explain("all_reduce", 4000, "float16").algorithm
    return found, near, halves, without.explain("all_reduce", 4000)


def test_all_ranks_choose_by_what_rank_0_has_measured(ranks: RankPool, tmp_path: Path) -> None:
    answers = ranks.run(3, measured_on_one_rank, str(tmp_path))
    assert answers == [answers[0]] * 3
    found, near, halves, without = answers[0]
    assert (found.algorithm, found.why, found.machine) == ("ring", "measured", Machine(7, MEASURED))
    assert (found.from_nbytes, found.to_nbytes) == (2000, 9999)
    ring = next(each for each in found.candidates if each.algorithm == "ring")
    assert (ring.measured_us, ring.measured_at, ring.why) == (12.5, 4096, "chosen")
    assert near == ["mesh", "ring", "ring", "mesh"] and halves == "mesh"
    assert (without.algorithm, without.machine.constants, without.to_nbytes) == ("mesh", SHIPPED, UNBOUNDED)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version":1}', '{"version":2}', tuning.shipped().to_text()[:-2]])
def test_measurements_that_are_of_no_use_are_told(tmp_path: Path, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    own = settings.read({"XDG_CACHE_HOME": str(tmp_path)})
    assert tuning.read(own) == tuning.shipped() and capfd.readouterr().err == ""
    path = tuning.write(own, tuning.shipped())
    path.write_text(text)
    for _ in range(2):
        assert tuning.read(own) == tuning.shipped()
    assert capfd.readouterr().err.count(f"ascend_rt: {path} is of no use: ") == 1


def test_measurements_are_read_as_they_were_written(tmp_path: Path) -> None:
    own = settings.read({"XDG_CACHE_HOME": str(tmp_path)})
    rows = tuple(
        Row("all_reduce", "ring", (size, size), (2000, 9999), at_nbytes=4096, measured_us=12.5) for size in (2, 3)
    )
    written = tuning.Tuning(Machine(7, MEASURED), rows)
    tuning.write(own, written)
    assert tuning.read(own) == written and written.for_ranks(3).rows == rows[1:]
    assert " " not in written.to_text()


# ---- explain ----


def explained(comm: Any, calls: list[tuple[Any, ...]]) -> list[Any]:
    return [made(comm, TWO_BY_TWO, HCCL_ALGO="scatter=level1:NB").explain(*each) for each in calls]


def formula(algorithm: str, p: int, n: int, cores: int) -> float:
    """Microseconds of an all-reduce of n bytes by p ranks."""
    rounds, touched = {
        "mesh": (1, Fraction(2)),
        "ring": (2 * (p - 1), Fraction(5 * (p - 1), p)),
        "NHR": (4, Fraction(5 * (p - 1), p)),  # 2 log2 p rounds
    }[algorithm]
    crowd = max(1, p / cores)
    alpha = SHIPPED.alpha_us if p <= cores else crowd * SHIPPED.switch_us
    per_byte = float(touched) * SHIPPED.beta_us_per_byte + (p - 1) / p * SHIPPED.gamma_us_per_byte
    return (rounds + 1) * alpha + crowd * n * per_byte


def test_explain_tells_what_the_formula_says(ranks: RankPool) -> None:
    calls = [("all_reduce", 1 << 20), ("scatter", 4096), ("all_reduce", 64), ("all_reduce", 4096, "bfloat16")]
    answers = ranks.run(4, explained, calls, environ={"XDG_CACHE_HOME": "/nowhere"})
    assert answers == [answers[0]] * 4
    large, scatter, small, halves = answers[0]
    predicted = {each.algorithm: each.predicted_us for each in large.candidates}
    for algorithm in ("mesh", "ring", "NHR"):
        want = formula(algorithm, 4, 1 << 20, large.machine.cores)
        assert predicted[algorithm] == pytest.approx(want, rel=1e-9), algorithm
    assert set(predicted) == {name for kind, name in listing() if kind == "all_reduce"}
    assert list(predicted.values()) == sorted(predicted.values()) and large.predicted_us == predicted["mesh"]
    assert (large.algorithm, large.why, large.servers, large.from_nbytes) == ("mesh", "default", "2 x 2", 1025)
    assert (scatter.algorithm, scatter.why) == ("mesh+NB", "HCCL_ALGO level1:NB")
    assert (small.algorithm, small.from_nbytes, small.to_nbytes) == ("the round itself", 0, 1024)
    reasons = {each.algorithm: each.why for each in halves.candidates}
    assert reasons["ring"] == "rounds a sum of bfloat16 once per hop, and nobody asked for it"
    head, chosen, *table = str(large).splitlines()
    assert head.startswith("all_reduce of 1048576 bytes per block, float32 sum, 4 ranks as 2 x 2 on ")
    assert chosen == f"mesh (default), predicted {large.predicted_us:.1f} us"
    assert table[1].split()[0] == "mesh" and table[1].endswith("chosen") and len(table) == 2 + len(predicted)


def refused(comm: Any) -> list[str]:
    said = []
    for each in (("allreduce", 1), ("all_reduce", -1), ("all_reduce", 1, "complex64"), ("reduce", 1, "int8", "mean")):
        with pytest.raises(ValueError, match="expected") as raised:
            comm.explain(*each)
        said.append(str(raised.value).partition(";")[0])
    return said


def test_explain_refuses_what_does_not_exist(ranks: RankPool) -> None:
    assert ranks.run(1, refused) == [["collective='allreduce'", "nbytes=-1", "dtype=complex64", "op='mean'"]]


# ---- bits ----


Pairs = list[tuple[str, str]]
BATCHES: list[Pairs] = [
    [(kind, names(kind)[number]) for kind in REDUCING if number < len(names(kind))]
    for number in range(max(len(names(kind)) for kind in REDUCING))
]
"""Every algorithm that folds, one of each collective at a time."""


def asking_for(pairs: Pairs) -> str:
    return "/".join(map("=".join, pairs))


def digests(comm: Any, runs: int) -> dict[tuple[str, str], int]:
    """How many results the same call has, before which each rank sleeps for as long as it likes, by each algorithm."""
    x, lateness, found = values(comm, 2000, 7), np.random.default_rng(), {}
    for pairs in BATCHES:
        group = made(comm, TWO_BY_TWO, "bits", ASCEND_RT_ALGO=asking_for(pairs))
        for kind, algorithm in pairs:
            assert choose(kind, comm.size, 8000, FP32, table=group._table).algorithm == algorithm
            bits = set()
            for _ in range(runs):
                time.sleep(lateness.random() * 0.002)
                bits.add(hashlib.sha256(np.ascontiguousarray(call(group, kind, x))).hexdigest())
            found[kind, algorithm] = len(bits)
        group.destroy()
    return found


@pytest.mark.parametrize("runs", [2, pytest.param(50, marks=pytest.mark.thorough)])
def test_the_same_bits_in_every_run_whoever_comes_late(ranks: RankPool, runs: int) -> None:
    every = dict.fromkeys((pair for pair in listing() if pair[0] in REDUCING), 1)
    assert ranks.run(4, digests, runs, timeout=100) == [every] * 4


LAYOUTS = ((), (0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 2, 3), (0, 1, 1, 1))


def in_rank_order(comm: Any, count: int, layouts: int) -> dict[str, Any]:
    """Where strict results are other bits than a fold of all contributions, one after another in rank order.

    layouts: with how many of them each algorithm is asked for.
    """
    x = values(comm, comm.size * count, count)
    every = comm.all_gather(x)
    want = every[0]
    for each in every[1:]:
        want = want + each
    wrong = {}
    for number, pairs in enumerate(BATCHES):
        for servers in (*LAYOUTS, *LAYOUTS)[number % len(LAYOUTS) :][:layouts]:
            asked = {"ASCEND_RT_ALGO": asking_for(pairs), "HCCL_DETERMINISTIC": "strict"}
            group = made(comm, servers, "strict", **asked)
            for kind, algorithm in pairs:
                got = call(group, kind, rt.array(x) if number % 2 else x)
                own = want[comm.rank * count : (comm.rank + 1) * count] if kind == "reduce_scatter" else want
                if got is not None and got.tobytes() != own.tobytes():
                    wrong[f"{kind} {algorithm} {servers}"] = (got, own)
            group.destroy()
    return wrong


@pytest.mark.parametrize(("count", "layouts"), [
    (700, 1), pytest.param(3, 5, marks=pytest.mark.thorough), pytest.param(700, 5, marks=pytest.mark.thorough),
])
def test_strict_gives_the_bits_of_a_fold_in_rank_order_by_every_algorithm_and_layout(
    ranks: RankPool, count: int, layouts: int
) -> None:
    assert ranks.run(4, in_rank_order, count, layouts, timeout=60) == [{}] * 4
