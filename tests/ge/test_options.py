"""Options by GE's keys, at three levels."""

import re

import pytest

from ascend_rt.ge.buckets import Fastest, Indices, Percentages, Threshold
from ascend_rt.ge.options import ROWS, WITHOUT_EFFECT, OptionError, Options, table

pytestmark = pytest.mark.proof


def test_the_graph_s_option_is_before_the_session_s_and_that_before_the_global_one():
    levels = [{"ascend_rt.memoryCap": str(number)} for number in (1, 2, 3)]
    key = "ascend_rt.memoryCap"
    assert Options().value(key) == 0
    assert Options(globally=levels[2]).value(key) == 3
    assert Options(session=levels[1], globally=levels[2]).value(key) == 2
    assert Options(*levels).value(key) == 1


@pytest.mark.parametrize(
    ("options", "on"),
    [
        ({}, {"overlap", "fusion"}),
        ({"ge.oo.level": "O1"}, set()),
        ({"ge.disableOptimizations": "overlap, other"}, {"fusion"}),
        ({"ge.enableSingleStream": "true"}, {"fusion"}),
    ],
)
def test_passes_are_switched_off(options, on):
    assert {name for name in ("overlap", "fusion") if Options(options).is_on(name)} == on


@pytest.mark.parametrize(
    ("options", "strategy"),
    [
        ({}, Fastest()),
        ({"ascend_rt.fusion": "rules"}, Percentages((96.54, 3.46))),
        ({"comm_fusion": '{"openstate": true}'}, Fastest()),
        ({"comm_fusion": '{"openstate": false, "allreduce": {"mode": "auto"}}'}, Threshold(1)),
        ({"comm_fusion": '{"allreduce": {"mode": "auto", "config": null}}'}, Threshold(64 << 20)),
        ({"comm_fusion": '{"allreduce": {"mode": "size", "config": 32}}'}, Threshold(32 << 20)),
        ({"comm_fusion": '{"allreduce": {"mode": "index", "config": [3, 7]}}'}, Indices((3, 7))),
    ],
)
def test_how_all_reduces_are_fused(options, strategy):
    assert Options(options).fusion == strategy


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ge.oo.level", "O2"),
        ("ge.topoSortingMode", "4"),
        ("ge.enableSingleStream", "yes"),
        ("ge.streamMaxParallelNum", "DNN_HCCL"),
        ("ge.streamMaxParallelNum", "DNN_HCCL:0"),
        ("ge.exec.inputReuseMemIndexes", "0,x"),
        ("ascend_rt.fusion", "best"),
        ("ascend_rt.memoryCap", "-1"),
        ("comm_fusion", "{"),
        ("comm_fusion", "[]"),
        ("comm_fusion", '{"allreduce": {"mode": "index", "config": 3}}'),
        ("comm_fusion", '{"allreduce": {"mode": "often"}}'),
        ("ge.nothing", "1"),
    ],
)
def test_a_wrong_option_names_its_key_its_value_and_what_was_expected(key, text):
    with pytest.raises(OptionError, match=re.escape(f"E10001: option {key} is {text!r}; expected ")) as caught:
        Options(session={key: text})
    assert caught.value.code == "E10001"


def test_every_key_has_a_line_and_none_stands_twice():
    keys = [row.key for row in ROWS]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & WITHOUT_EFFECT
    assert [line.split()[0] for line in table().splitlines()] == keys
    assert Options(globally=dict.fromkeys(WITHOUT_EFFECT, "anything")).is_on("overlap")


@pytest.mark.parametrize(
    ("text", "most"), [("", None), ("DNN_HCCL:2", 2), ("AIcoreEngine:3", None), ("A:1,DNN_HCCL:4", 4)]
)
def test_streams_for_communication(text, most):
    assert Options({"ge.streamMaxParallelNum": text}).value("ge.streamMaxParallelNum") == most
