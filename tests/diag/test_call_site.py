"""The line that an error names is the user's."""

import inspect

import pytest

from ascend_rt.diag.call_site import call_site

pytestmark = pytest.mark.proof


def test_the_innermost_line_outside_of_the_package() -> None:
    here = inspect.currentframe()
    assert here is not None
    assert call_site() == f"test_call_site.py:{here.f_lineno}"
