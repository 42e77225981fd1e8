"""The text that describes emulated links: what it says, and that nothing else is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt import settings
from ascend_rt.setting_links import RATES, TIMES, Link, Links, LinksOf
from ascend_rt.settings import SettingError

pytestmark = pytest.mark.proof

PARSE = LinksOf()


def test_one_link_for_all_pairs() -> None:
    links = PARSE("2GB/s,5us")
    assert links == Links(Link(2e9, 5000))
    assert links.between(0, 3) == links.between(3, 0) == Link(2e9, 5000)
    assert links.between(2, 2) is None
    assert str(links) == "2GB/s,5us"


def test_pairs_go_before_what_is_said_for_all() -> None:
    links = PARSE("3-1:1.5MiB/s,2ms;8GB/s,0us;0-1:1kB/s,1s")
    assert links.between(1, 3) == Link(1.5 * 2**20, 2_000_000)
    assert links.between(1, 0) == Link(1e3, 1_000_000_000)
    assert links.between(0, 3) == Link(8e9, 0)
    assert links.highest_rank() == 3


def test_pairs_alone_leave_the_others_as_fast_as_memory() -> None:
    links = PARSE("0-1:2GB/s,5us")
    assert links.between(0, 2) is None and links.between(1, 0) is not None


RATE = st.tuples(st.integers(1, 999), st.sampled_from(sorted(RATES)))
TIME = st.tuples(st.integers(0, 999), st.sampled_from(sorted(TIMES)))


@given(st.dictionaries(st.tuples(st.integers(0, 8), st.integers(9, 20)), st.tuples(RATE, TIME), min_size=1))
def test_what_is_written_is_read_again(pairs: dict[tuple[int, int], tuple[tuple[int, str], tuple[int, str]]]) -> None:
    entries = (f"{a}-{b}:{rate}{of}/s,{time}{unit}" for (a, b), ((rate, of), (time, unit)) in pairs.items())
    links = PARSE(";".join(entries))
    assert str(PARSE(str(links))) == str(links)
    for (a, b), ((rate, of), (time, unit)) in pairs.items():
        assert links.between(b, a) == Link(rate * RATES[of], int(time * TIMES[unit]))


@pytest.mark.parametrize("text, why", [
    ("2GB/s", "'2GB/s' is no link"),
    ("2GB,5us", "is no link"),
    ("0GB/s,5us", "is no link"),
    ("2Gb/s,5us", "is no link"),
    ("2GB/s,5us;", "'' is no link"),
    ("2GB/s,5us;1GB/s,5us", "'1GB/s,5us' is a second one for all pairs"),
    ("1-1:2GB/s,5us", "names one rank"),
    ("0-1:2GB/s,5us;1-0:2GB/s,5us", "names a pair twice"),
    ("-1-0:2GB/s,5us", "is no link"),
])
def test_anything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(SettingError, match="ASCEND_RT_LINK") as caught:
        settings.read({"ASCEND_RT_LINK": text})
    assert why in str(caught.value)
