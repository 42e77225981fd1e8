"""acl.mdl by pyACL's names and return conventions, as inference programs use it; and models of several ranks."""

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, ge
from ascend_rt.ge.mdl.models import models
from ascend_rt.ge.placement import address_of
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

ACL_MEM_MALLOC_HUGE_FIRST = 0
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


def build(rank: int, size: int) -> ge.Graph:
    """total: the sum over all ranks of x + w."""
    b = ge.Builder(rank, {"world": range(size)} if size > 1 else {})
    x, total = b.input("x", (3, 4)), b.output("total", (3, 4))
    h, w = b.empty("h", (3, 4)), b.constant("w", np.arange(12, dtype=np.float32).reshape(3, 4))
    b.copy(h, x)
    b.kernel(operator.iadd, h, w, reads=[h, w], writes=[h])
    if size > 1:
        b.all_reduce("world", h, total)
    else:
        b.copy(total, h)
    return b.graph("step")


def write(folder: Path, size: int) -> str:
    path = folder / f"step{size}.om"
    path.write_bytes(ge.compile_model("step", {rank: build(rank, size) for rank in range(size)}).to_bytes())
    return str(path)


def inference(comm: rt.Communicator, path: str) -> list[Any]:
    """As a pyACL program does it: device memory, datasets, execute."""
    assert acl.rt.set_device(comm.rank) == 0
    told: list[Any] = [acl.mdl.query_size(path)]
    model, ret = acl.mdl.load_from_file(path)
    assert ret == 0, acl.get_recent_err_msg()
    desc = acl.mdl.create_desc()
    assert acl.mdl.get_desc(desc, model) == 0
    told.append((acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)))
    told.append((acl.mdl.get_input_size_by_index(desc, 0), acl.mdl.get_output_size_by_index(desc, 0)))
    told.append((acl.mdl.get_input_dims(desc, 0), acl.mdl.get_output_index_by_name(desc, "total")))
    told.append((acl.mdl.get_input_name_by_index(desc, 0), acl.mdl.get_output_data_type(desc, 0)))
    x = np.arange(12, dtype=np.float32) * comm.rank
    sets, pointers = [], []
    for _ in range(2):
        pointer, ret = acl.rt.malloc(48, ACL_MEM_MALLOC_HUGE_FIRST)
        assert ret == 0
        dataset = acl.mdl.create_dataset()
        assert acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, 48)) == (dataset, 0)
        sets.append(dataset)
        pointers.append(pointer)
    assert acl.rt.memcpy(pointers[0], 48, acl.util.numpy_to_ptr(x), 48, HOST_TO_DEVICE) == 0
    stream, _ = acl.rt.create_stream()
    for asynchronous in (False, True):
        if asynchronous:
            assert acl.mdl.execute_async(model, *sets, stream) == 0
            assert acl.rt.synchronize_stream(stream) == 0
        else:
            assert acl.mdl.execute(model, *sets) == 0, acl.get_recent_err_msg()
        out = np.zeros(12, np.float32)
        assert acl.rt.memcpy(acl.util.numpy_to_ptr(out), 48, pointers[1], 48, DEVICE_TO_HOST) == 0
        told.append(out.tolist())
    told.append((acl.mdl.unload(model), acl.mdl.unload(model), acl.mdl.execute(model, *sets)))
    return told


@pytest.mark.parametrize("size", [1, 2])
def test_a_program_of_pyacl_loads_and_executes(ranks: RankPool, tmp_path: Path, size: int) -> None:
    path = write(tmp_path, size)
    for told in ranks.run(size, inference, path):
        assert told[:5] == [
            (512, 48, 0),
            (1, 1),
            (48, 48),
            (({"name": "x", "dimCount": 2, "dims": [3, 4]}, 0), (0, 0)),
            ("x", acl.ACL_FLOAT),
        ]
        total = [float(i * (sum(range(size)) + size)) for i in range(12)]
        assert told[5:] == [total, total, (0, 107017, 107017)]


def binding(rank: int, size: int) -> ge.Graph:
    """out = x + 3; y, which it writes, counts."""
    b = ge.Builder(rank, {})
    x, y, out = b.input("x", (4,)), b.input("y", (4,)), b.output("out", (4,))
    b.copy(out, x)
    b.kernel(operator.iadd, out, 3, reads=[out], writes=[out])
    b.kernel(operator.iadd, y, 1, reads=[y], writes=[y])
    return b.graph("step")


def bindings(comm: rt.Communicator, path: str) -> list[Any]:
    """out, y, and whether the graph was run over the caller's x and out, for buffers of all sorts in turn."""
    assert acl.rt.set_device(comm.rank) == 0
    model, ret = acl.mdl.load_from_file(path)
    assert ret == 0, acl.get_recent_err_msg()
    stream, _ = acl.rt.create_stream()
    device = [acl.rt.malloc(64, ACL_MEM_MALLOC_HUGE_FIRST)[0] for _ in range(5)]
    host = [np.zeros(16, np.float32) for _ in range(2)]
    pageable = [acl.util.numpy_to_ptr(array) for array in host]
    random = np.random.default_rng(comm.rank + 17)
    told: list[Any] = []
    for x, out in (
        (device[0], device[1]),
        (device[2], device[3]),
        (device[0] + 4, device[1] + 8),
        (device[2], device[2]),
        (device[2], device[2] + 8),
        (device[0] + 1, device[1] + 1),
        (pageable[0], pageable[1]),
        (device[0], pageable[1]),
    ):
        values = random.integers(0, 99, 4).astype(np.float32)
        counts = np.zeros(4, np.float32)
        for at, array in ((x, values), (device[4], counts)):
            acl.rt.memcpy(at, 16, acl.util.numpy_to_ptr(array), 16, acl.ACL_MEMCPY_DEFAULT)
        sets = [dataset([x, device[4]], 16), dataset([out], 16)]
        assert acl.mdl.execute_async(model, *sets, stream) == 0, acl.get_recent_err_msg()
        assert [acl.mdl.destroy_dataset(one) for one in sets] == [0, 0] and acl.rt.synchronize_stream(stream) == 0
        total = np.zeros(4, np.float32)
        acl.rt.memcpy(acl.util.numpy_to_ptr(total), 16, out, 16, acl.ACL_MEMCPY_DEFAULT)
        acl.rt.memcpy(acl.util.numpy_to_ptr(counts), 16, device[4], 16, acl.ACL_MEMCPY_DEFAULT)
        used = [address_of(models.get(model).graph.memory[name]) for name in ("x", "out")]
        told.append(((total - values).tolist(), counts.tolist(), [used[0] == x, used[1] == out]))
    return told


def dataset(pointers: list[int], nbytes: int) -> int:
    made = acl.mdl.create_dataset()
    for pointer in pointers:
        acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(pointer, nbytes))
    return made


def test_inputs_and_outputs_are_used_where_they_lie_if_that_can_be(ranks: RankPool, tmp_path: Path) -> None:
    """Not where they overlap, are not aligned or not on a device; an input that the model writes is never changed."""
    path = tmp_path / "step.om"
    path.write_bytes(ge.compile_model("step", {0: binding(0, 1)}).to_bytes())
    both, none = [True, True], [False, False]
    where = [both, both, both, [True, False], [True, False], none, none, [True, False]]
    assert ranks.run(1, bindings, str(path)) == [[([3.0] * 4, [0.0] * 4, met) for met in where]]


def queued_executions(comm: rt.Communicator, path: str) -> list[Any]:
    """Two executions that wait on a stream: each has its own buffers, which are freed and whose sets are destroyed."""
    acl.rt.set_device(comm.rank)
    model, _ = acl.mdl.load_from_file(path)
    stream, _ = acl.rt.create_stream()
    word, _ = acl.rt.malloc(8, ACL_MEM_MALLOC_HUGE_FIRST)
    acl.rt.memset(word, 8, 0, 8)
    assert acl.rt.value_wait(word, 1, 1, stream) == 0
    before, outs = comm._memory.device.in_use, []
    for number in range(2):
        x, out = (acl.rt.malloc(48, ACL_MEM_MALLOC_HUGE_FIRST)[0] for _ in range(2))
        outs.append(out)
        values = np.full(12, comm.rank + 10.0 * number, np.float32)
        acl.rt.memcpy(x, 48, acl.util.numpy_to_ptr(values), 48, HOST_TO_DEVICE)
        sets = dataset([x], 48), dataset([out], 48)
        assert acl.mdl.execute_async(model, *sets, stream) == 0, acl.get_recent_err_msg()
        assert acl.rt.free(x) == 0
    config = acl.mdl.create_exec_config_handle()
    told: list[Any] = [acl.mdl.set_exec_config_opt(config, 1, 5), acl.mdl.set_exec_config_opt(config, 0, 1)]
    told.append(acl.mdl.execute_v2(model, *sets, stream, config))
    assert acl.rt.value_write(word, 1, 0, 0) == 0 and acl.rt.synchronize_stream(stream) == 0
    for out in outs:
        total = np.zeros(12, np.float32)
        acl.rt.memcpy(acl.util.numpy_to_ptr(total), 48, out, 48, DEVICE_TO_HOST)
        told.append(total.tolist())
        acl.rt.free(out)
    assert acl.rt.synchronize_stream(stream) == 0
    return [*told, comm._memory.device.in_use - before]


@pytest.mark.parametrize("size", [1, 2])
def test_queued_executions_have_the_buffers_they_were_queued_with(ranks: RankPool, tmp_path: Path, size: int) -> None:
    for told in ranks.run(size, queued_executions, write(tmp_path, size)):
        assert told[:3] == [200006, 0, 507046]
        first = [float(i * size + sum(range(size))) for i in range(12)]
        assert told[3:5] == [first, [value + 10.0 * size for value in first]]
        assert told[5] <= 1024


def failures(comm: rt.Communicator, path: str) -> list[Any]:
    data = Path(path).read_bytes()
    damaged = data[:-1] + b"x"
    assert acl.rt.set_device(0) == 0
    told: list[Any] = [acl.mdl.load_from_file("/nowhere.om"), acl.mdl.query_size("/nowhere.om")]
    told.append(acl.mdl.load_from_mem(acl.util.bytes_to_ptr(damaged), len(damaged)))
    told.append("checksum is" in acl.get_recent_err_msg())
    model, ret = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
    empty, small = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    acl.mdl.add_dataset_buffer(small, acl.create_data_buffer(1, 8))
    told += [ret, acl.mdl.execute(model, empty, empty), acl.mdl.execute(model, small, small)]
    desc = acl.mdl.create_desc()
    told += [acl.mdl.get_desc(desc, 5), acl.mdl.get_desc_from_mem(desc, acl.util.bytes_to_ptr(data), len(data))]
    told += [acl.mdl.get_input_dims(desc, 1), acl.mdl.get_input_size_by_index(desc, 1), acl.mdl.get_num_inputs(desc)]
    told += [acl.mdl.get_input_index_by_name(desc, "y"), acl.mdl.destroy_desc(desc), acl.mdl.destroy_desc(desc)]
    stream, _ = acl.rt.create_stream()
    acl.mdl.ri_capture_begin(stream, 0)
    told.append(acl.mdl.execute_async(model, *(dataset([acl.rt.malloc(48, 0)[0]], 48) for _ in range(2)), stream))
    told.append(acl.mdl.ri_capture_end(stream)[1])
    return told


def test_what_has_no_sense_here_says_so(ranks: RankPool, tmp_path: Path) -> None:
    assert ranks.run(1, without_sense, write(tmp_path, 1)) == [
        [
            ({"batchCount": 0, "batch": []}, 0),
            (0, 0),
            145013,
            "batch size 8: the inputs of this model are x [3, 4], and have no other sizes; "
            "compile an .om for each size",
            107017,
            (0, 200006),
            "acl.mdl.bundle_load_from_file: an .om of hccl-atc holds the graphs of all ranks, and no bundle of models",
        ]
    ]


def without_sense(comm: rt.Communicator, path: str) -> list[Any]:
    acl.rt.set_device(comm.rank)
    model, _ = acl.mdl.load_from_file(path)
    desc = acl.mdl.create_desc()
    acl.mdl.get_desc(desc, model)
    told: list[Any] = [acl.mdl.get_dynamic_batch(desc), acl.mdl.get_input_dynamic_gear_count(desc, -1)]
    told += [acl.mdl.set_dynamic_batch_size(model, 0, 0, 8), acl.get_recent_err_msg().partition("(145013): ")[2]]
    told += [acl.mdl.set_input_dynamic_dims(5, 0, 0, {"dims": [1]}), acl.mdl.bundle_load_from_file(path)]
    return [*told, acl.get_recent_err_msg()]


def test_what_is_wrong_is_told_by_codes(ranks: RankPool, tmp_path: Path) -> None:
    (told,) = ranks.run(1, failures, write(tmp_path, 1))
    assert told[:4] == [(0, 145002), (0, 0, 145002), (0, 545001), True]
    assert told[4:7] == [0, 107000, 107000]
    assert told[7:] == [107017, 0, (0, 107000), 0, 1, (0, 107000), 0, 107017, 107027, 0]


PROGRAM = """
import acl
import numpy as np

acl.init()
acl.rt.set_device(0)
model, ret = acl.mdl.load_from_file("step2.om")
x, total = np.ones(12, np.float32), np.zeros(12, np.float32)
datasets = []
for array in (x, total):
    dataset = acl.mdl.create_dataset()
    acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(acl.util.numpy_to_ptr(array), array.nbytes))
    datasets.append(dataset)
print(ret, acl.mdl.execute(model, *datasets), total.sum())
"""


def test_a_program_that_imports_acl_finds_models_under_hccl_run(
    ranks: RankPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 2)
    (tmp_path / "infer.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    job = ranks.hccl_run(["-n", "2", "--acl", "infer.py"])
    assert sorted(job.stdout.splitlines()) == [f"[{rank}] 0 0 {2.0 * (66 + 12)}" for rank in range(2)], job
