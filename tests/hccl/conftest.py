"""An option of the tests of collectives."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--oracle-cases", type=int, default=None, help="random calls that test_oracle.py makes in total")
