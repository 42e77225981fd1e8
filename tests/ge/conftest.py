"""What tests of captured graphs share."""

from collections.abc import Iterator

import pytest

import ascend_rt as rt
from ascend_rt import ge


def _stream() -> Iterator[rt.Stream]:
    """A stream that is captured no more when the test is over."""
    stream = rt.Stream()
    yield stream
    ge.abandon(stream)
    stream.end()


stream, other = (pytest.fixture(_stream, name=name) for name in ("stream", "other"))
