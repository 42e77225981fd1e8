"""The table of settings: strict, complete, and right about what a rank's environment holds."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt import settings
from ascend_rt.settings import Choice, SettingError, Settings, Whole, Word

pytestmark = pytest.mark.proof


def test_an_empty_environment_gives_the_defaults() -> None:
    read = settings.read({})
    assert (read.hccl_connect_timeout, read.hccl_exec_timeout) == (120, 1836)
    assert (read.ascend_rt_spin, read.ascend_rt_yields, read.ascend_rt_sleep_ms) == (None, 200, 50)
    assert read.ascend_rt_kernels == "auto"
    assert [getattr(read, name.lower()) for name in settings.JOB] == [None] * len(settings.JOB)


def test_every_row_is_an_attribute_of_its_own_name_and_says_what_it_means() -> None:
    for row in settings.table():
        assert vars(Settings)[row.name.lower()] is row
        assert row.kind in ("system", "launcher", "debug")
        assert row.sentence.endswith(".")
        assert row.expected and "object at" not in row.expected


@pytest.mark.parametrize("name, text, value", [
    ("HCCL_EXEC_TIMEOUT", "0", 0),
    ("HCCL_EXEC_TIMEOUT", "2147483647", 2147483647),
    ("HCCL_CONNECT_TIMEOUT", "7200", 7200),
    ("MASTER_PORT", "65535", 65535),
    ("MASTER_ADDR", "::1", "::1"),
    ("ASCEND_RT_SPIN", "0", 0),
    ("ASCEND_RT_KERNELS", "plain", "plain"),
])
def test_good_values(name: str, text: str, value: object) -> None:
    assert getattr(settings.read({name: text}), name.lower()) == value


@pytest.mark.parametrize("name, text, expected", [
    ("HCCL_EXEC_TIMEOUT", "ten", "a whole number from 0 to 2147483647, in s (1836 when not set)"),
    ("HCCL_EXEC_TIMEOUT", "10s", "a whole number from 0 to 2147483647, in s (1836 when not set)"),
    ("HCCL_EXEC_TIMEOUT", "-1", "a whole number from 0 to 2147483647, in s (1836 when not set)"),
    ("HCCL_EXEC_TIMEOUT", "2147483648", "a whole number from 0 to 2147483647, in s (1836 when not set)"),
    ("HCCL_CONNECT_TIMEOUT", "0", "a whole number from 1 to 7200, in s (120 when not set)"),
    ("MASTER_PORT", "tcp://10.0.0.1:80", "a whole number from 1 to 65535"),
    ("ASCEND_RT_KERNELS", "AVX2", "one of auto, plain, avx2, avx512, neon (auto when not set)"),
    ("ASCEND_RT_JOB", "two words", "what hccl-run set"),
])
def test_a_bad_value_says_name_value_and_what_was_expected(name: str, text: str, expected: str) -> None:
    with pytest.raises(SettingError) as caught:
        settings.read({name: text})
    assert str(caught.value) == f"EI0001: environment variable {name} is {text!r}; expected {expected}."
    assert (caught.value.code, caught.value.name) == ("EI0001", name)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("row", settings.table(), ids=lambda row: row.name)
def test_an_empty_value_is_an_error_in_every_row(row: settings.Setting[object]) -> None:
    with pytest.raises(SettingError, match=f"{row.name} is set but empty"):
        row.parse({row.name: ""})


@given(st.text())
def test_whole_takes_plain_digits_in_range_and_nothing_else(text: str) -> None:
    plain = text != "" and all(letter in "0123456789" for letter in text)
    if plain and 3 <= int(text) <= 70_000:
        assert Whole(3, 70_000)(text) == int(text)
    else:
        with pytest.raises(ValueError):
            Whole(3, 70_000)(text)


@given(st.integers(3, 70_000))
def test_whole_reads_back_what_was_written(number: int) -> None:
    assert Whole(3, 70_000)(str(number)) == number


@given(st.text())
def test_word_and_choice_take_a_text_as_it_is_or_not_at_all(text: str) -> None:
    for parser in (Word(), Choice(("auto", "plain"))):
        try:
            assert parser(text) == text
        except ValueError:
            assert text not in ("auto", "plain")


@pytest.mark.parametrize("environ, name, expected", [
    ({"RANK_ID": "2"}, "RANK_ID", "RANK_SIZE beside it, which is not set"),
    ({"RANK_SIZE": "2"}, "RANK_SIZE", "RANK_ID beside it, which is not set"),
    ({"RANK": "0"}, "RANK", "WORLD_SIZE beside it"),
    ({"RANK_ID": "4", "RANK_SIZE": "4"}, "RANK_ID", "a rank below RANK_SIZE, which is 4"),
    ({"LOCAL_RANK": "9", "LOCAL_WORLD_SIZE": "4"}, "LOCAL_RANK", "a rank below LOCAL_WORLD_SIZE, which is 4"),
])
def test_half_a_pair_and_a_rank_outside_its_size_are_errors(environ: dict[str, str], name: str, expected: str) -> None:
    with pytest.raises(SettingError, match=expected) as caught:
        settings.read(environ)
    assert caught.value.name == name


def test_a_misspelt_name_of_ours_is_an_error_that_names_the_right_one() -> None:
    with pytest.raises(SettingError, match="ASCEND_RT_SPINS is set but not known; expected ASCEND_RT_SPIN perhaps"):
        settings.read({"ASCEND_RT_SPINS": "5"})
    settings.read({"ASCEND_RT_VISIBLE_DEVICES": "0,1", "HCCL_SOMETHING": "CANN's own"})


def test_a_rank_sees_its_own_job_whatever_stood_outside() -> None:
    outside = {"RANK_ID": "7", "RANK_SIZE": "99", "WORLD_SIZE": "x", "ASCEND_RT_JOB": "other", "HOME": "/home/a b\nc"}
    environ = settings.for_rank(outside, job="address:nonce", rank=1, size=3, master_port=4321)
    read = settings.read(environ)
    assert (read.rank_id, read.rank, read.local_rank, read.device_id) == (1, 1, 1, 1)
    assert (read.rank_size, read.world_size, read.local_world_size) == (3, 3, 3)
    assert (read.master_addr, read.master_port, read.ascend_rt_job) == ("127.0.0.1", 4321, "address:nonce")
    assert environ["HOME"] == "/home/a b\nc"
    assert outside["RANK_ID"] == "7"


def test_for_rank_and_without_job_speak_of_the_same_variables() -> None:
    environ = settings.for_rank({}, job="j", rank=0, size=1, master_port=1)
    assert sorted(environ) == sorted(settings.JOB)
    assert settings.without_job({**environ, "PATH": "/bin"}) == {"PATH": "/bin"}


def test_adopt_replaces_the_environment_of_the_process_and_of_its_children() -> None:
    program = (
        "import os, subprocess; from ascend_rt import settings;"
        "settings.adopt({'PATH': os.environ['PATH'], 'HCCL_EXEC_TIMEOUT': '3', 'BYTES': os.fsdecode(b'\\xff\\n')});"
        "assert settings.read().hccl_exec_timeout == 3;"
        "assert settings.environment()['BYTES'] == os.fsdecode(b'\\xff\\n');"
        "print(subprocess.check_output(['env', '-0']).split(b'\\0')[:-1])"
    )
    command, environ = [sys.executable, "-P", "-c", program], {**os.environ, "GONE": "1"}
    outcome = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert "b'BYTES=\\xff\\n'" in outcome.stdout and "b'HCCL_EXEC_TIMEOUT=3'" in outcome.stdout
    assert "GONE" not in outcome.stdout


def test_settings_cannot_be_changed_and_show_what_was_given() -> None:
    read = settings.read({"HCCL_EXEC_TIMEOUT": "5"})
    with pytest.raises(AttributeError):
        read.hccl_exec_timeout = 6  # type: ignore[misc]
    with pytest.raises(TypeError):
        read.values["HCCL_EXEC_TIMEOUT"] = 6  # type: ignore[index]
    assert repr(read) == "Settings(HCCL_EXEC_TIMEOUT=5)"


def test_the_help_and_the_page_name_every_row_once() -> None:
    for row in settings.table():
        assert settings.help_text().count(f"  {row.name}  (") == 1
        assert settings.markdown().count(f"| `{row.name}` |") == 1
