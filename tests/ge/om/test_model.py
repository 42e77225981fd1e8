"""The .om: what is written is read again, and whatever is not so is refused with the field that is wrong."""

import contextlib
import copy
import json
import operator
import random
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt import ge
from ascend_rt.ge.om.header import Header, Partition, PartitionType, pack, unpack
from ascend_rt.ge.om.model import RankModel
from ascend_rt.hccl import HcclError

pytestmark = pytest.mark.proof

WEIGHTS = np.arange(100, dtype=np.float32)


def step(rank: int, size: int, count: int = 100) -> ge.Graph:
    b = ge.Builder(rank, {"world": range(size), "even": range(0, size, 2)})
    x, out = b.input("x", (count,)), b.output("out", (count,))
    h, w = b.empty("h", (count,)), b.constant("w", WEIGHTS[:count])
    b.copy(h, x)
    b.kernel(operator.iadd, h, w, reads=[h, w], writes=[h])
    b.all_reduce("world", h, out)
    if rank % 2 == 0:
        b.wait(1, on=0)
        b.call("barrier", "even", stream=1)
        b.wait(0, on=1)
    return b.graph("step")


def model(size: int = 3) -> ge.Model:
    return ge.compile_model("step", {rank: step(rank, size) for rank in range(size)}, command="hccl-atc ...")


FILE = model().to_bytes()


def test_what_is_written_is_read() -> None:
    read = ge.Model.from_bytes(FILE)
    assert read == model() and read.to_bytes() == FILE
    for rank, own in enumerate(read.ranks):
        graph = own.graph
        assert graph.nodes == step(rank, 3).nodes and graph.groups == step(rank, 3).groups
        assert own.weights == {"w": WEIGHTS.tobytes()}
        assert own.offsets == {"h": 0} and own.plan["peak"] == own.plan["bound"] == 512


def test_the_container_has_ges_layout_and_holds_equal_weights_once() -> None:
    assert FILE[:4] == b"IMOD" and struct.unpack_from("<I", FILE, 4) == (256,)
    header, partitions = unpack(FILE)
    assert header == Header("step", 8 + 3 + 8, 3)
    assert [len(part.data) for part in partitions if part.type is PartitionType.WEIGHTS_DATA] == [WEIGHTS.nbytes]
    assert struct.unpack_from("<I", FILE, 256) == (5,)


def test_graphs_that_do_not_fit_together_are_not_compiled() -> None:
    with pytest.raises(HcclError, match="count"):
        ge.compile_model("step", {0: step(0, 2), 1: step(1, 2, 90)})
    with pytest.raises(ValueError, match=r"graphs of ranks \[1\]; expected those of ranks 0 to N-1"):
        ge.compile_model("step", {1: step(1, 2)})


def test_without_reuse_nothing_shares_memory() -> None:
    plain = ge.compile_model("step", {0: step(0, 1)}, ge.MemoryOptions(reuse=False))
    assert plain.ranks[0].plan["no_reuse"] == plain.ranks[0].plan["total_size"] == 512


# ---- damage ----


def test_every_byte_of_the_header_matters() -> None:
    for at in range(256):
        damaged = bytearray(FILE)
        damaged[at] ^= 0x40
        with pytest.raises(ge.ModelFileError, match=r"545001\): "):
            ge.Model.from_bytes(bytes(damaged))


@given(st.integers(0, len(FILE) - 1), st.integers(1, 255))
def test_any_byte_that_is_another_one_is_refused(at: int, flips: int) -> None:
    damaged = bytearray(FILE)
    damaged[at] ^= flips
    with pytest.raises(ge.ModelFileError, match=r"ACL_ERROR_GE_LOAD_MODEL \(545001\): "):
        ge.Model.from_bytes(bytes(damaged))


@given(st.integers(0, len(FILE) - 1))
def test_any_file_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ge.ModelFileError, match=r"no \.om: |cut short"):
        ge.Model.from_bytes(FILE[:length])


def test_a_job_that_is_not_that_of_the_header_is_refused() -> None:
    header, parts = unpack(FILE)
    job = json.loads(parts[0].data)
    for field, value, reason in (
        ("made_by", "ascend_rt 1", "made_by has a str; expected ascend_rt, python, numpy"),
        ("name", "other", "name is 'other', and 'step' in the header"),
    ):
        other = Partition(PartitionType.FLOW_MODEL, json.dumps(job | {field: value}).encode())
        with pytest.raises(ge.ModelFileError, match=reason):
            ge.Model.from_bytes(pack(header, [other, *parts[1:]]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no .om: 0 bytes; expected a header of 256 bytes"),
        (FILE[:255], "no .om: 255 bytes"),
        (b"PK\3\4" + FILE[4:], "magic is 0x4034b50; expected 0x444f4d49"),
        (FILE[:8] + b"\1" + FILE[9:], "version is 1; expected 2: compile it again with this release's hccl-atc"),
        (FILE[:120] + bytes(32) + FILE[152:], "that ascend_rt has not made"),
        (FILE[:-1], "the file is cut short or has something behind it"),
        (FILE + b"\0", "the file is cut short or has something behind it"),
        (FILE[:-1] + b"\1", "checksum is .*; expected "),
    ],
)
def test_a_damaged_file_is_refused_with_the_field(data: bytes, reason: str) -> None:
    with pytest.raises(ge.ModelFileError, match=reason):
        ge.Model.from_bytes(data)


def changed(change: Any, rank: int = 0) -> bytes:
    """The file with another JSON of a rank, and a right checksum."""
    header, parts = unpack(FILE)
    form = json.loads(parts[1 + rank].data)
    change(form)
    parts[1 + rank] = Partition(PartitionType.FLOW_SUBMODEL, json.dumps(form).encode())
    return pack(header, parts)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda form: form.pop("plan"), r"rank 0 has graph, weights; expected graph, plan, weights"),
        (lambda form: form["plan"].update(peak="big"), r"rank 0\.plan\.peak is a str; expected int"),
        (lambda form: form["plan"].update(peak=True), r"rank 0\.plan\.peak is a bool; expected int"),
        (lambda form: form["graph"]["nodes"][1].update(id=None), r"rank 0\.graph\.nodes\[1\]\.id is a NoneType"),
        (lambda form: form["graph"]["nodes"].pop(), "ops is .*, and the graphs have"),
        (lambda form: form["plan"].update(peak=100), "buffer 'h' is planned at 0, outside of 100 bytes"),
        (lambda form: form["plan"]["offsets"].clear(), "buffer 'h' is an intermediate one and has no place"),
        (lambda form: form["weights"][0].update(offset=8), "weights of 'w' are outside of their partition"),
        (lambda form: form["weights"][0].update(nbytes=8), "8 bytes of weights for buffer 'w'"),
        (lambda form: form["graph"]["buffers"][0].update(nbytes=8), "which has 8 bytes"),
        (lambda form: form["graph"]["nodes"][1]["task"].update(function="os:nothing"), "cannot be imported"),
    ],
)
def test_a_field_that_is_wrong_is_named(change: Any, reason: str) -> None:
    with pytest.raises(ge.ModelFileError, match=reason):
        _ = ge.Model.from_bytes(changed(change)).ranks[0].graph


def test_partitions_that_are_not_those_of_the_ranks_are_refused() -> None:
    header, parts = unpack(FILE)
    for wrong in (parts[1:], parts[:-1], parts[:2] + parts[3:], [*parts, parts[0]], parts[::-1], []):
        with pytest.raises(ge.ModelFileError, match="model_num is 3, and the partitions are"):
            ge.Model.from_bytes(pack(header, wrong))
    with pytest.raises(ge.ModelFileError, match="is no JSON"):
        ge.Model.from_bytes(pack(header, [Partition(parts[0].type, b"[" * 100_000), *parts[1:]]))


def read_all(data: bytes) -> None:
    """Everything that loading looks at; raises nothing but ModelFileError."""
    with contextlib.suppress(ge.ModelFileError):
        for rank in ge.Model.from_bytes(data).ranks:
            _ = rank.graph.order, rank.offsets, rank.weights


@given(st.binary(max_size=600))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_all(data)
    header, _ = unpack(FILE)
    read_all(pack(header, [Partition(kind, data) for kind in PartitionType]))
    read_all(FILE[:256] + data)


VALUES = (
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    "",
    "w",
    "x",
    [],
    [0],
    {},
    {"view": [1]},
    {"tuple": [{}]},
    "math:pi",
    "bfloat16",
)


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_any_change_of_a_value_is_read_or_refused(seed: int, times: int) -> None:
    """With a right checksum: values of the JSON are exchanged for others, anywhere in it."""
    draw = random.Random(seed)

    def change(form: Any) -> None:
        for _ in range(times):
            at, key = form, draw.choice(list(form))
            while isinstance(at[key], dict | list) and at[key] and draw.random() < 0.9:
                at = at[key]
                key = draw.choice(list(at)) if isinstance(at, dict) else draw.randrange(len(at))
            at[key] = copy.deepcopy(draw.choice(VALUES))

    read_all(changed(change))


FORGED = {
    "more rows than there are": ("copy", {"rows": 2, "to_pitch": 8, "source_pitch": 8}, "2 rows of 400 bytes, 8 apart"),
    "a pitch that goes back": ("copy", {"rows": 2, "to_pitch": -8, "nbytes": 8}, "2 rows of 8 bytes, -8 apart"),
    "a copy of more than there is": ("copy", {"nbytes": 401}, "1 rows of 401 bytes, 0 apart, leave h"),
    "a call of more than there is": ("collective", {"count": 101}, "x has not the 101 elements that are used"),
    "a call of less than nothing": ("collective", {"count": -1}, "x has not the -1 elements that are used"),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_task_that_leaves_its_buffers_is_refused_whatever_the_checksum_says(forged: str) -> None:
    kind, changes, why = FORGED[forged]
    form = copy.deepcopy(model().ranks[0].form)
    task = next(node["task"] for node in form["nodes"] if node["kind"] == kind)
    assert set(changes) <= set(task)
    task.update(changes)
    with pytest.raises(ge.ModelFileError, match=f"the graph cannot be read: .*{why}"):
        _ = RankModel(form, model().ranks[0].plan, {}).graph
