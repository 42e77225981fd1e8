"""acl.mdl by pyACL's names and return conventions, as inference programs use it; and models of several ranks."""

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, ge
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
    return told


def test_what_is_wrong_is_told_by_codes(ranks: RankPool, tmp_path: Path) -> None:
    (told,) = ranks.run(1, failures, write(tmp_path, 1))
    assert told[:4] == [(0, 145002), (0, 0, 145002), (0, 545001), True]
    assert told[4:7] == [0, 107000, 107000]
    assert told[7:] == [107017, 0, (0, 107000), 0, 1, (0, 107000), 0, 107017]


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
