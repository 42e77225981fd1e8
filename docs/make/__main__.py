"""Makes the pages and tables of docs/ that come from the code of the installed package.

    python docs/make

docs/functions.md and docs/reference.md are made as a whole, of docs/porting.md what stands between two comments. A
test compares them with what this would write.
"""

from pathlib import Path

import functions
import porting
import reference

DOCS = Path(__file__).resolve().parents[1]


def pages() -> dict[Path, str]:
    """What is to stand in each page."""
    with_tables = DOCS / "porting.md"
    return {
        DOCS / "functions.md": functions.page(),
        DOCS / "reference.md": reference.page(),
        with_tables: porting.renew(with_tables.read_text()),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
