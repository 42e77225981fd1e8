"""The table of settings: strict, complete, and right about what a rank's environment holds."""

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt import settings
from ascend_rt.setting_row import Choice, Setting, SettingError, Whole, Word
from ascend_rt.settings import Settings

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


@pytest.mark.parametrize(
    "row", [row for row in settings.table() if row.name != "XDG_CACHE_HOME"], ids=lambda row: row.name
)
def test_an_empty_value_is_an_error_in_every_row(row: Setting[object]) -> None:
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


@pytest.mark.parametrize("name, text, value", [
    ("HCCL_DETERMINISTIC", "STRICT", "strict"),
    ("HCCL_ENTRY_LOG_ENABLE", "1", True),
    ("ASCEND_RT_VISIBLE_DEVICES", "0,1,9", (0, 1, 9)),
    ("ASCEND_RT_STRICT_DTYPES", "910_93", "910_93"),
])
def test_values_of_cann(name: str, text: str, value: object) -> None:
    assert getattr(settings.read({name: text}), name.lower()) == value


@pytest.mark.parametrize("text, why", [
    ("1,0", "0 comes after 1"),
    ("0,0", "0 comes after 0"),
    (" 0, 1", "' 0' is no device id"),
    ("0,1,", "'' is no device id"),
    ("a", "'a' is no device id"),
    ("0,-1", "'-1' is no device id"),
])
def test_device_ids_that_cann_drops_in_silence_are_an_error_that_names_the_entry(text: str, why: str) -> None:
    expected = f"is {text!r}; expected device ids that ascend, separated by commas: 0,1,4; {why}"
    with pytest.raises(SettingError, match=re.escape(expected)):
        settings.read({"ASCEND_RT_VISIBLE_DEVICES": text})


def test_algorithms_for_all_operators_or_for_each_that_is_named() -> None:
    for_all = settings.read({"HCCL_ALGO": "level0:NA;level1:H-D_R"}).hccl_algo
    assert for_all is not None and str(for_all) == "level0:NA;level1:H-D_R"
    assert [for_all.of("allreduce", level) for level in ("level0", "level1", "level2")] == [None, "H-D_R", None]
    each = settings.read({"HCCL_ALGO": "allreduce=level0:NA;level1:ring/allgather=level1:NHR"}).hccl_algo
    assert each is not None
    assert [each.of(name, "level1") for name in ("allreduce", "allgather", "reduce")] == ["ring", "NHR", None]


@pytest.mark.parametrize("text, why", [
    ("ring", "'ring' begins with none of level0:, level1:, level2:"),
    ("level1:rings", "'rings' is none of the algorithms ring, H-D_R"),
    ("level0:ring", "level0 is 'ring', which follows from the topology: only NA"),
    ("all_reduce=level1:ring", "'all_reduce' is none of the operators allgather"),
    ("level1:ring/level1:NHR", "is neither"),
    ("level1:ring;level1:NHR", "level1 stands there twice"),
    ("allreduce=level1:ring/allreduce=level1:NHR", "allreduce stands there twice"),
])
def test_algorithms_that_cann_passes_over_are_an_error(text: str, why: str) -> None:
    with pytest.raises(SettingError, match=re.escape(why)):
        settings.read({"HCCL_ALGO": text})


def test_algorithms_by_their_own_names() -> None:
    asked = settings.read({"ASCEND_RT_ALGO": "all_reduce=mesh+H-D_R/broadcast=tree"}).ascend_rt_algo
    assert asked is not None and asked.by_collective == (("all_reduce", "mesh+H-D_R"), ("broadcast", "tree"))
    assert str(asked) == "all_reduce=mesh+H-D_R/broadcast=tree"
    for text, wrong in (("ring", "'ring' is none"), ("reduce=", "'reduce=' is none"), ("a=b/a=c", "there twice")):
        with pytest.raises(SettingError, match=f"EI0001: .*ASCEND_RT_ALGO is '{text}'; expected COLLECTIVE=.*{wrong}"):
            settings.read({"ASCEND_RT_ALGO": text})


@pytest.mark.parametrize(("text", "folder"), [("/a/b", "/a/b"), ("", None), ("a/b", None)])
def test_a_cache_folder_that_is_no_absolute_path_counts_as_not_set(text: str, folder: str | None) -> None:
    assert settings.read({"XDG_CACHE_HOME": text}).xdg_cache_home == folder


def test_what_cann_refuses_gives_a_notice_and_with_strict_an_error() -> None:
    short = {"HCCL_CONNECT_TIMEOUT": "10"}
    assert settings.read(short).hccl_connect_timeout == 10
    assert settings.notices(short) == [
        "HCCL_CONNECT_TIMEOUT is '10'; CANN takes a whole number from 120 to 7200, in s (120 when not set). "
        "ASCEND_RT_STRICT=1 refuses it too"
    ]
    assert settings.notices({"HCCL_CONNECT_TIMEOUT": "120"}) == settings.notices({}) == []
    with pytest.raises(SettingError, match="HCCL_CONNECT_TIMEOUT is '10'; expected a whole number from 120"):
        settings.read({**short, "ASCEND_RT_STRICT": "1"})


def test_who_has_to_go_on_gets_the_default_of_what_is_wrong() -> None:
    examined, error = settings.examine({"HCCL_BUFFSIZE": "200MB", "HCCL_EXEC_TIMEOUT": "5"})
    assert (examined.hccl_buffsize, examined.hccl_exec_timeout) == (200, 5)
    assert error is not None and error.name == "HCCL_BUFFSIZE"
    assert settings.examine({})[1] is None


def test_a_field_of_the_configuration_beats_the_environment_which_beats_the_default() -> None:
    environ = settings.read({"HCCL_BUFFSIZE": "100", "HCCL_EXEC_TIMEOUT": "60"})
    both = environ.with_config({"hcclBufferSize": 50, "hcclDeterministic": 2, "hcclAlgo": "level1:ring"})
    assert (both.hccl_buffsize, both.hccl_exec_timeout, both.hccl_deterministic) == (50, 60, "strict")
    assert both.to_agree_on()["HCCL_ALGO"] == "level1:ring"
    assert environ.hccl_buffsize == 100
    with pytest.raises(SettingError, match="EI0016: hcclBufferSize, which stands for HCCL_BUFFSIZE, is '0'; expected"):
        environ.with_config({"hcclBufferSize": 0})
    assert {row.name for row in settings.table()} >= set(settings.CONFIG_FIELDS.values())


def test_what_changes_what_ranks_do_together_has_to_agree() -> None:
    assert list(settings.read({}).to_agree_on().items()) == [
        ("HCCL_BUFFSIZE", "200"),
        ("HCCL_ALGO", "not set"),
        ("HCCL_DETERMINISTIC", "false"),
        ("ASCEND_RT_STRICT_DTYPES", "0"),
        ("ASCEND_RT_LINK", "not set"),
        ("ASCEND_RT_ALGO", "not set"),
        ("ASCEND_RT_PACKET_BYTES", "1024"),
        ("ASCEND_RT_PIECE_KIB", "512"),
    ]
