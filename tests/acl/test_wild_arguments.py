"""Every function of acl.rt, called with whatever integers: a code, never a crash."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_rt import acl
from ascend_rt.acl.stream import Stream

# What is valid by itself is left out of the integers: 0 is a device, a stream, a flag.
WILD = st.one_of(
    st.integers(),
    st.integers(-(1 << 65), 1 << 65),
    st.integers(0x2000_0000_0000, 0x2000_0000_0000 + (1 << 40)),  # where the job's memory is likely to be
    st.sampled_from([1, -1, 7, 1 << 31, (1 << 32) - 1, 1 << 63, 1 << 64]),
)
OTHERS = {
    "key": st.text("0123456789abcdef", min_size=60, max_size=66),
    "pids": st.lists(WILD, max_size=3),
    "function": st.just(len),
    "user_data": st.none(),
    "cfg": st.sampled_from([None, {}, {"a": 1}]),
}
# One takes all the host's memory that it is asked for; two are about the error of the call before.
FUNCTIONS = sorted(set(acl.rt.__all__) - {"malloc_host", "get_last_error", "peek_at_last_error"})


@pytest.fixture(scope="module", autouse=True)
def usual_limit() -> Iterator[None]:
    yield
    Stream.event_seconds = None


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_wild_integers_give_codes(device: int, name: str, data: Any) -> None:
    function: Callable[..., Any] = getattr(acl.rt, name)
    parameters = inspect.signature(function).parameters
    answer = function(*(data.draw(OTHERS.get(parameter, WILD)) for parameter in parameters))
    ret = answer if isinstance(answer, int) else answer[-1]
    assert ret == 0 or 100000 <= ret < 600000
    if ret:
        assert acl.rt.peek_at_last_error(0) == ret and acl.get_recent_err_msg()


def test_the_last_error_is_told_until_it_is_taken(device: int) -> None:
    acl.rt.get_last_error(0)
    assert acl.rt.peek_at_last_error(0) == 0
    assert acl.rt.free(1) == acl.ACL_ERROR_RT_PARAM_INVALID
    assert acl.rt.peek_at_last_error(0) == acl.rt.get_last_error(0) == acl.ACL_ERROR_RT_PARAM_INVALID
    assert acl.rt.peek_at_last_error(0) == acl.rt.get_last_error(0) == 0
    assert acl.rt.get_last_error(1) == acl.rt.peek_at_last_error(-1) == acl.ACL_ERROR_RT_PARAM_INVALID


def test_what_has_no_meaning_here_says_so(device: int) -> None:
    assert acl.rt.set_exception_info_callback(print) == acl.ACL_ERROR_FEATURE_UNSUPPORTED
    assert "no kernel runs here" in acl.get_recent_err_msg()
    with pytest.raises(AttributeError, match=r"acl\.blas needs operators, and ascend_rt has none"):
        _ = acl.blas
    with pytest.raises(AttributeError, match="module 'acl' has no attribute 'rtt'"):
        _ = acl.rtt


def test_versions() -> None:
    assert acl.get_soc_name() == "Ascend910B1"
    version, ret = acl.get_cann_version(0)
    assert ret == 0 and version["version"].startswith(version["major_version"])
    assert acl.get_cann_version(8) == (0, acl.ACL_ERROR_RT_PARAM_INVALID)
