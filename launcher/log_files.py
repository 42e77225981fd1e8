"""--log-dir: what each rank writes, byte for byte, in one file per rank and stream."""

import os
from pathlib import Path


class LogFile:
    """One rank's stdout or stderr; what cannot be written is lost, and said at the end of the job."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self.path = path
        self.failure: OSError | None = None
        self._file = path.open("wb", buffering=0)

    def write(self, data: bytes) -> None:
        while data and self.failure is None:
            try:
                data = data[os.write(self._file.fileno(), data) :]
            except OSError as error:
                self.failure = error


def open_logs(folder: Path, ranks: int) -> list[tuple[LogFile, LogFile]]:
    """rank_N.stdout and rank_N.stderr for every rank; files of an earlier job are replaced. Raises OSError."""
    return [
        (LogFile(folder / f"rank_{rank}.stdout"), LogFile(folder / f"rank_{rank}.stderr")) for rank in range(ranks)
    ]
