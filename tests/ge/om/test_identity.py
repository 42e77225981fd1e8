"""An .om knows what it was made from: kernels that are others when it is loaded are refused or told, by name."""

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ascend_rt import ge
from ascend_rt.ge.om.load import graph_of

pytestmark = pytest.mark.proof

KERNELS = """
FACTOR = 3


def shifted(x):
    return x + 1


def unrelated(x):
    return x


class Scale:
    def apply(x, out):
        out[:] = FACTOR * shifted(x)


def square(x, out, by=1):
    out[:] = x * x * by
"""


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """imported(source): the kernels are these from now on."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(source: str) -> None:
        (tmp_path / "kernels_of_step.py").write_text(source)
        monkeypatch.delitem(sys.modules, "kernels_of_step", raising=False)
        importlib.invalidate_caches()

    return write


def compiled(count: int = 8) -> ge.Model:
    kernels = importlib.import_module("kernels_of_step")
    b = ge.Builder(0, {})
    x, h, out = b.input("x", (count,)), b.empty("h", (count,)), b.output("out", (count,))
    b.kernel(kernels.Scale.apply, x, h, reads=[x], writes=[h])
    b.kernel(np.negative, h, h, reads=[h], writes=[h])
    b.kernel(kernels.square, h, out, by=2, reads=[h], writes=[out])
    return ge.compile_model("step", {0: b.graph("step")}, command="hccl-atc f.py:build")


def read(model: ge.Model) -> ge.Model:
    return ge.Model.from_bytes(model.to_bytes())


def test_an_om_says_what_it_was_made_from(imported: Callable[[str], None]) -> None:
    imported(KERNELS)
    identity = read(compiled()).identity
    assert identity.made_by["numpy"] == np.__version__ and re.match(r"\d+\.\d+", identity.made_by["ascend_rt"])
    rows = [(kernel.function, kernel.file, kernel.parameters, kernel.rank) for kernel in identity.kernels]
    assert rows == [
        ("kernels_of_step:Scale.apply", "kernels_of_step.py", ("x", "out"), 0),
        ("kernels_of_step:square", "kernels_of_step.py", ("x", "out", "by"), 0),
        ("numpy:negative", "", (), 0),
    ]
    assert identity.kernels[2].source == "numpy " + ".".join(np.__version__.split(".")[:2])
    assert identity == compiled().identity
    assert identity.graph != compiled(9).identity.graph


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("return x\n", "return -x\n", ""),
        ("\n\ndef shifted", "\n# behind FACTOR\n\n\ndef shifted", ""),
        ("x * x * by", "x * x * x * by", "kernel 'kernels_of_step:square' of kernels_of_step.py has another text"),
        ("x + 1", "x + 10", "kernel 'kernels_of_step:Scale.apply' of kernels_of_step.py has another text"),
        ("FACTOR = 3", "FACTOR = 30", "kernel 'kernels_of_step:Scale.apply' of kernels_of_step.py has another text"),
        ("by=1", "by=1, more=0", "kernel 'kernels_of_step:square' of kernels_of_step.py has another text"),
    ],
)
def test_a_kernel_whose_text_is_another_one_is_told_or_refused(
    imported: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    told: str,
) -> None:
    imported(KERNELS)
    model = compiled()
    assert old in KERNELS
    imported(KERNELS.replace(old, new))
    assert len(graph_of(read(model), 0).nodes) == 3
    err = capsys.readouterr().err
    assert err.startswith(told) and err.endswith(": compile it again (hccl-atc f.py:build)\n" if told else "")
    assert len(err.splitlines()) == bool(told)
    monkeypatch.setenv("ASCEND_RT_STALE_KERNELS", "refuse")
    if told:
        with pytest.raises(ge.ModelFileError, match=re.escape(told)):
            graph_of(read(model), 0)
    else:
        graph_of(read(model), 0)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("x, out, by=1", "out, x, by=1", r"takes \(out, x, by\); it was compiled with \(x, out, by\): compile"),
        ("x, out, by=1", "x, out", r"takes \(x, out\); it was compiled with \(x, out, by\)"),
        ("x, out, by=1", "x, out, by, more", r"takes \(x, out, by, more\); it was compiled with"),
        ("def square", "def cube", "kernel 'kernels_of_step:square' cannot be imported"),
    ],
)
def test_a_kernel_with_other_parameters_is_refused(
    imported: Callable[[str], None], old: str, new: str, reason: str
) -> None:
    imported(KERNELS)
    model = compiled()
    imported(KERNELS.replace(old, new))
    with pytest.raises(ge.ModelFileError, match=reason):
        graph_of(read(model), 0)


def test_a_file_of_another_release_is_refused_or_told(
    imported: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A patch of ascend_rt is no other release; one of NumPy is told where a kernel is NumPy's."""
    imported(KERNELS)
    model = compiled()
    major, minor = model.identity.made_by["ascend_rt"].split(".")[:2]

    def made_by(ascend_rt: str) -> ge.Model:
        identity = dataclasses.replace(model.identity, made_by={**model.identity.made_by, "ascend_rt": ascend_rt})
        return read(dataclasses.replace(model, identity=identity))

    graph_of(made_by(f"{major}.{minor}.99"), 0)
    with pytest.raises(ge.ModelFileError, match=rf"made_by is ascend_rt {major}\.999\.0, and this is .*: compile"):
        graph_of(made_by(f"{major}.999.0"), 0)
    assert capsys.readouterr().err == ""
    *python, negative = model.identity.kernels
    old = (*python, dataclasses.replace(negative, source="numpy 1.2"))
    graph_of(read(dataclasses.replace(model, identity=dataclasses.replace(model.identity, kernels=old))), 0)
    assert re.match(r"kernel 'numpy:negative' is of numpy \d.*, and was .* in numpy 1\.2", capsys.readouterr().err)
    without = dataclasses.replace(model, identity=dataclasses.replace(model.identity, kernels=tuple(python)))
    with pytest.raises(ge.ModelFileError, match="kernels has no 'numpy:negative', which the graph of rank 0 calls"):
        graph_of(read(without), 0)
