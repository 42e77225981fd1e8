"""hccl-run reads its own options and nothing behind the program's name."""

import argparse
from collections.abc import Callable

import pytest
from ascend_rt.launcher import arguments
from ascend_rt.launcher.program import Program
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.proof


@pytest.mark.parametrize(
    ("line", "own", "program"),
    [
        ("train.py", "", Program("script", "train.py", ())),
        ("-n 4 train.py -n 5 --help", "-n 4", Program("script", "train.py", ("-n", "5", "--help"))),
        ("-n4 --no-prefix a.py -- -m b", "-n4 --no-prefix", Program("script", "a.py", ("--", "-m", "b"))),
        ("--env A=b --env=C=d -m pkg.mod -m x", "--env A=b --env=C=d", Program("module", "pkg.mod", ("-m", "x"))),
        ("--timeout 5 -- bash -c exit", "--timeout 5", Program("command", "bash", ("-c", "exit"))),
        ("-- -strange", "", Program("command", "-strange", ())),
        ("--grace 3 --hbm 2G", "--grace 3 --hbm 2G", None),
        ("-m", "", None),
        ("--", "", None),
        ("", "", None),
    ],
)
def test_split(line: str, own: str, program: Program | None) -> None:
    assert arguments.split(line.split()) == (own.split(), program)


@given(st.lists(st.text()))
def test_the_programs_words_arrive_untouched(words: list[str]) -> None:
    assert arguments.split(["-n", "2", "x.py", *words]) == (["-n", "2"], Program("script", "x.py", tuple(words)))


def test_options() -> None:
    words = [
        "-n",
        "3",
        "--env",
        "A=",
        "--env",
        "B=c=d",
        "--timeout",
        "1.5",
        "--grace",
        "0",
        "--hbm",
        "512M",
        "--no-prefix",
    ]
    given = arguments.parser().parse_args(words)
    assert (given.n, given.env, given.timeout, given.grace) == (3, [("A", ""), ("B", "c=d")], 1.5, 0.0)
    assert (given.hbm, given.no_prefix, given.help_env) == (512 << 20, True, False)


def test_defaults() -> None:
    given = arguments.parser().parse_args([])
    assert given.n >= 1
    assert (given.env, given.timeout, given.grace, given.hbm, given.no_prefix) == ([], None, 5.0, None, False)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1", 1),
        ("4096", 4096),
        ("1k", 1024),
        ("2G", 2 << 30),
        ("1.5GiB", 3 << 29),
        ("512mb", 512 << 20),
        ("1T", 1 << 40),
    ],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert arguments.size(text) == nbytes


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (arguments.size, "0"),
        (arguments.size, "G"),
        (arguments.size, "-1G"),
        (arguments.size, "1 G"),
        (arguments.size, "1e3"),
        (arguments.seconds, "-1"),
        (arguments.seconds, "nan"),
        (arguments.seconds, ""),
        (arguments.ranks, "0"),
        (arguments.ranks, "4095"),
        (arguments.ranks, "two"),
        (arguments.ranks, "٢"),
        (arguments.variable, "A"),
        (arguments.variable, "=x"),
        (arguments.variable, "RANK=1"),
        (arguments.variable, "ASCEND_RT_JOB=x"),
    ],
)
def test_nonsense_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse(text)


def test_tune_takes_a_number_of_ranks() -> None:
    parse = arguments.parser().parse_args
    assert [parse(words).tune for words in ([], ["--tune"], ["--tune=4"])] == [None, 8, 4]
    with pytest.raises(SystemExit):
        parse(["--tune=1"])
