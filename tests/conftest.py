"""What all tests share: the warm pool of ranks, and which tests a plain run leaves out."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from ascend_rt.testing import RankPool

# The same examples in every run, so that a run fails for what was changed and not for what was drawn.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", max_examples=2000, print_blob=True)
settings.load_profile("same")


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankPool]:
    """The warm pool: `ranks.run(4, function, *arguments)` runs `function(comm, *arguments)` on 4 ranks."""
    with RankPool() as pool:
        yield pool


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is marked `thorough`, unless -m speaks of it or tests are named one by one (`file.py::test`)."""
    if "thorough" in config.option.markexpr or any("::" in argument for argument in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = [item for item in terminalreporter.stats.get("deselected", ()) if item.get_closest_marker("thorough")]
    if left_out:
        terminalreporter.write_line(f"{len(left_out)} thorough tests were left out: pytest -m thorough")
