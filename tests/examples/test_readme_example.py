"""The example at the top of the README, run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.processes
def test_the_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    text = README.read_text()
    program = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    printed = re.search(r"`hccl-run -n 4 look.py`.*prints `(.*?)`", text)
    assert program and printed
    (tmp_path / "look.py").write_text(program[1])
    command = [str(Path(sys.executable).with_name("hccl-run")), "-n", "4", "--no-prefix", str(tmp_path / "look.py")]
    job = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (job.returncode, job.stdout) == (0, printed[1] + "\n"), job.stderr
