"""GE's options: what a graph is optimised by, as texts by GE's keys, at three levels.

    options = Options(graph={"ge.disableOptimizations": "overlap"}, session={...}, globally={...})
    options.disabled, options.fusion, ...          parsed
    print(table())                                 all keys, what they take and what they do

A key is looked up for the graph, then for the session, then globally, then its default stands. GE's keys that mean
something here are in the table, and ours beside them, which begin with ascend_rt. Of further keys of GE those that say
nothing of what is done here are taken, and ge.optimise has a line on each in the graph's log (options_of_ge). Those
that ask for something that is not done are errors which say what to do instead, as is any other key, and a value that
a key does not take.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from .buckets import Fastest, Indices, Percentages, Strategy, Threshold
from .options_of_ge import MEANINGLESS, NOT_DONE


class OptionError(ValueError):
    """An option that does not exist, or a value that it does not take."""

    code = "E10001"

    def __init__(self, key: str, given: str, expected: str) -> None:
        super().__init__(f"E10001: option {key} is {given!r}; expected {expected}")


class Row(NamedTuple):
    """A key, what its text may be, and what it does."""

    key: str
    default: str
    expected: str
    parse: Callable[[str], Any]
    """raises ValueError for what the key does not take"""
    meaning: str


def _word(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return parse


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(text)
    return int(text)


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split(",")) if text else ()


def _streams(text: str) -> int | None:
    """Of communication."""
    found = [_number(part.removeprefix("DNN_HCCL:")) for part in text.split(",") if part.startswith("DNN_HCCL:")]
    if text and not all(re.fullmatch(r"\w+:[1-9][0-9]*", part) for part in text.split(",")):
        raise ValueError(text)
    return found[-1] if found else None


def _fusion(text: str) -> Strategy:
    return Fastest() if _word("auto", "rules")(text) == "auto" else Percentages()


_CALLS = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}


def _comm_fusion(text: str) -> dict[str, Strategy]:
    """MindSpore's, by name of the call. Where it is closed, every bucket of all-reduces has one gradient."""
    form = json.loads(text) if text else {}
    if not isinstance(form, dict) or set(form) - {"openstate", *_CALLS}:
        raise ValueError(text)
    rules = {_CALLS[name]: _rule(rule, name) for name, rule in form.items() if name in _CALLS and rule is not None}
    return rules if form.get("openstate", True) else {"all_reduce": Threshold(1)}


def _rule(rule: Mapping[str, Any], name: str) -> Strategy:
    mode: str = rule["mode"]
    config: Any = rule.get("config")
    if mode == "auto":
        return Threshold()
    if mode == "size":
        return Threshold(int(config) << 20)
    if mode == "index" and name == "allreduce":
        return Indices(tuple(config))
    raise ValueError(mode)


ON_OFF = ("0", "1")
ROWS = (
    Row("ge.oo.level", "O3", "O1 or O3", _word("O1", "O3"), "O1: no pass runs"),
    Row("ge.disableOptimizations", "", "names of passes, with commas", _names, "these passes do not run"),
    Row("ge.enableSingleStream", "false", "true or false", _word("true", "false"), "true: nothing is overlapped"),
    Row(
        "ge.topoSortingMode",
        "0",
        "0, 1, 2 or 3",
        _word("0", "1", "2", "3"),
        "3: kernels keep their order; 0, 1 and 2: they have the one that hides most",
    ),
    Row("ge.hcomParallel", "1", "0 or 1", _word(*ON_OFF), "0: nothing is overlapped"),
    Row(
        "ge.streamMaxParallelNum",
        "",
        "ENGINE:n, with commas",
        _streams,
        "DNN_HCCL:n: at most n streams for communication, or one for each communicator; kernels stay on theirs",
    ),
    Row("ge.exec.disableReuseMemory", "0", "0 or 1", _word(*ON_OFF), "1: no two buffers share memory"),
    Row("ge.exec.inputReuseMemIndexes", "", "numbers, with commas", _numbers, "inputs that may be overwritten"),
    Row(
        "ge.exec.outputReuseMemIndexes",
        "",
        "numbers, with commas",
        _numbers,
        "outputs that hold other things first",
    ),
    Row(
        "ge.exec.staticMemoryPolicy",
        "2",
        "0, 2, 3 or 4",
        _word("0", "2", "3", "4"),
        "0: every graph has memory of its own, also those that are launched on one stream",
    ),
    Row(
        "ge.exec.memoryOptimizationPolicy",
        "",
        "BalanceMode, MemoryPriority, or nothing",
        _word("", "BalanceMode", "MemoryPriority"),
        "MemoryPriority: a smaller plan of memory is searched for longer",
    ),
    Row(
        "ge.fusionTensorSize",
        "524288000",
        "bytes",
        _number,
        "the largest fused broadcast",
    ),
    Row("ascend_rt.fusion", "auto", "auto or rules", _fusion, "how all-reduces are fused: see all_reduce_fusion"),
    Row(
        "ascend_rt.narrowReductions",
        "false",
        "true or false",
        _word("true", "false"),
        "true: a narrowing cast goes before the all-reduce or reduce-scatter that it follows, which rounds otherwise",
    ),
    Row("ascend_rt.memoryCap", "0", "bytes; 0: none", _number, "what passes may let the planned peak grow to"),
    Row("ge.recompute", "", "auto, or nothing", _word("", "auto"), "auto: kernels run again where memory is short"),
    Row("ge.graphMemoryMaxSize", "0", "bytes; 0: any number", _number, "the planned peak, at most"),
    Row(
        "comm_fusion",
        "",
        'MindSpore\'s, as JSON: {"openstate": true, "allreduce": {"mode": "auto" | "size" | "index", "config": ...}, '
        '"allgather" and "reducescatter": {"mode": "auto" | "size", "config": ...}}',
        _comm_fusion,
        "auto: 64 MB; size: in MB; index: the last all-reduce of each bucket",
    ),
)
_BY_KEY = {row.key: row for row in ROWS}


class _Switch(NamedTuple):
    """A key, and its value with which a pass runs."""

    key: str
    on: str


_SWITCHES = {
    "narrowing_cast_reduction": [_Switch("ascend_rt.narrowReductions", "true")],
    "overlap": [_Switch("ge.enableSingleStream", "false"), _Switch("ge.hcomParallel", "1")],
    "recompute": [_Switch("ge.recompute", "auto")],
}
"""By name of the pass: all have to be on."""


@dataclass(frozen=True)
class Options:
    """Options at their levels. OptionError: a key that does not exist, a value that it does not take.

    split_strategies    by name of the communicator, as hccl.split.api was told: they win over the options
    """

    graph: Mapping[str, str] = field(default_factory=dict)
    session: Mapping[str, str] = field(default_factory=dict)
    globally: Mapping[str, str] = field(default_factory=dict)
    split_strategies: Mapping[str, Strategy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for level in (self.graph, self.session, self.globally):
            for key, text in level.items():
                if key in _BY_KEY:
                    _parsed(_BY_KEY[key], text)
                elif key in NOT_DONE:
                    usual, instead = NOT_DONE[key]
                    if text not in usual:
                        expected = " or ".join(map(repr, usual)) or "none at all"
                        raise OptionError(key, text, f"{expected}, since that is not done here: {instead}")
                elif key not in MEANINGLESS:
                    raise OptionError(key, text, f"one of GE's keys or {', '.join(_BY_KEY)}")

    def value(self, key: str) -> Any:
        """What a key of the table is, parsed. KeyError: it is not in the table."""
        row = _BY_KEY[key]
        levels = (self.graph, self.session, self.globally)
        return _parsed(row, next((level[key] for level in levels if key in level), row.default))

    def is_on(self, name: str) -> bool:
        """Whether a pass runs."""
        if any(self.value(switch.key) != switch.on for switch in _SWITCHES.get(name, ())):
            return False
        return self.value("ge.oo.level") == "O3" and name not in self.value("ge.disableOptimizations")

    @cached_property
    def fusion(self) -> Strategy:
        """How all-reduces are fused where their communicator has no strategy of its own."""
        strategy: Strategy = self.comm_fusion.get("all_reduce") or self.value("ascend_rt.fusion")
        return strategy

    @cached_property
    def comm_fusion(self) -> Mapping[str, Strategy]:
        """By name of the call, how those are fused of which comm_fusion says something."""
        strategies: dict[str, Strategy] = self.value("comm_fusion")
        return strategies

    def notices(self, passes: Collection[str] = ()) -> list[str]:
        """A line on each thing that was given and means nothing here. passes: the names of all that there are."""
        given = {**self.globally, **self.session, **self.graph}
        lines = [f"option {key} has no effect: {MEANINGLESS[key]}" for key in given if key in MEANINGLESS]
        engines = [part.partition(":")[0] for part in given.get("ge.streamMaxParallelNum", "").split(",") if part]
        others = sorted({*engines} - {"DNN_HCCL"})
        if others:
            why = "kernels stay on the streams of the capture"
            lines.append(f"option ge.streamMaxParallelNum has no effect on {', '.join(others)}: {why}")
        unknown = sorted(self.value("ge.disableOptimizations") - set(passes))
        if unknown:
            lines.append(f"option ge.disableOptimizations names {', '.join(unknown)}, and there is no such pass")
        return lines


def table() -> str:
    """The keys that have an effect, to be read by people."""
    lines = [(row.key, row.default or "-", row.expected, row.meaning) for row in ROWS]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _parsed(row: Row, text: str) -> Any:
    try:
        return row.parse(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise OptionError(row.key, text, row.expected) from None
