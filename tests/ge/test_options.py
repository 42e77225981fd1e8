"""Options by GE's keys, at three levels."""

import re

import pytest

from ascend_rt import ge
from ascend_rt.ge.buckets import Fastest, Indices, Percentages, Threshold
from ascend_rt.ge.options import ROWS, OptionError, Options, table
from ascend_rt.ge.options_of_ge import MEANINGLESS, NOT_DONE
from ascend_rt.ge.passes import PASSES

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
        ({"ge.hcomParallel": "0"}, {"fusion"}),
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


def test_comm_fusion_says_how_each_call_is_fused():
    text = '{"allgather": {"mode": "size", "config": 8}, "reducescatter": {"mode": "auto", "config": null}}'
    options = Options({"comm_fusion": text})
    assert options.comm_fusion == {"all_gather": Threshold(8 << 20), "reduce_scatter": Threshold(64 << 20)}
    assert options.fusion == Fastest()
    assert Options({"comm_fusion": text[:-1] + ', "openstate": false}'}).comm_fusion == {"all_reduce": Threshold(1)}


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
        ("comm_fusion", '{"allgather": {"mode": "index", "config": [3]}}'),
        ("comm_fusion", '{"broadcast": {"mode": "auto"}}'),
        ("ge.fusionTensorSize", "1MB"),
        ("ge.hcomParallel", "true"),
        ("ge.exec.memoryOptimizationPolicy", "Smallest"),
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
    assert len({*keys, *MEANINGLESS, *NOT_DONE}) == len(keys) + len(MEANINGLESS) + len(NOT_DONE)
    assert [line.split()[0] for line in table().splitlines()] == keys


@pytest.mark.parametrize("level", ["graph", "session", "globally"])
def test_what_means_nothing_here_is_told_in_the_log(level):
    options = Options(**{level: dict.fromkeys(MEANINGLESS, "anything")})
    graph = ge.optimise(ge.Builder(0, {}).graph(), options)
    assert list(graph.log) == [f"option {key} has no effect: {why}" for key, why in MEANINGLESS.items()]
    assert Options({"ge.graphRunMode": "1"}, {"ge.graphRunMode": "0"}).notices() == [
        "option ge.graphRunMode has no effect: graphs of training and of inference are compiled alike"
    ]


def test_engines_and_passes_that_do_not_exist_are_told_in_the_log():
    streams = Options({"ge.streamMaxParallelNum": "AIcoreEngine:3,DNN_HCCL:1"})
    assert streams.notices() == [
        "option ge.streamMaxParallelNum has no effect on AIcoreEngine: kernels stay on the streams of the capture"
    ]
    graph = ge.optimise(ge.Builder(0, {}).graph(), Options({"ge.disableOptimizations": "overlap,RemoveSameConstPass"}))
    assert graph.log == ("option ge.disableOptimizations names RemoveSameConstPass, and there is no such pass",)
    assert ge.optimise(ge.Builder(0, {}).graph(), Options({"ge.disableOptimizations": ",".join(PASSES)})).log == ()


@pytest.mark.parametrize("key", NOT_DONE)
def test_what_is_not_done_here_is_refused_with_what_to_do_instead(key):
    usual, instead = NOT_DONE[key]
    for text in usual:
        Options({key: text})
    expected = " or ".join(map(repr, usual)) or "none at all"
    told = f"E10001: option {key} is '7'; expected {expected}, since that is not done here: {instead}"
    with pytest.raises(OptionError, match=re.escape(told)):
        Options({key: "7"})


@pytest.mark.parametrize(
    ("text", "most"), [("", None), ("DNN_HCCL:2", 2), ("AIcoreEngine:3", None), ("A:1,DNN_HCCL:4", 4)]
)
def test_streams_for_communication(text, most):
    assert Options({"ge.streamMaxParallelNum": text}).value("ge.streamMaxParallelNum") == most
