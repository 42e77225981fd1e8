"""A terminal of its own for rank 0, so that progress bars and colours work as they do without hccl-run.

When hccl-run writes to a terminal, rank 0 gets a pseudo-terminal in the place of a pipe: isatty() is true, and its
width is that of the real one, less the room that the prefix takes.  Whatever is typed does not come through it: rank 0
reads the real terminal.  It is not the controlling terminal of the rank, so no signal comes through it either.
"""

import fcntl
import os
import struct
import termios

OFLAG = 1  # where tcgetattr has the flags of output
WINDOW = "4H"  # struct winsize: rows, columns, and two that nobody fills
FEWEST_COLUMNS = 20


def open_like(fd: int, margin: int) -> tuple[int, int]:
    """(reading end, writing end) of a new terminal, as wide as that of `fd` less `margin` columns."""
    reading, writing = os.openpty()
    attributes = termios.tcgetattr(writing)
    attributes[OFLAG] &= ~termios.OPOST  # the real terminal turns \n into \r\n, once
    termios.tcsetattr(writing, termios.TCSANOW, attributes)
    follow_size(reading, fd, margin)
    return reading, writing


def follow_size(terminal: int, fd: int, margin: int) -> None:
    """Give `terminal` the size that the terminal `fd` has now, less `margin` columns."""
    nothing = struct.pack(WINDOW, 0, 0, 0, 0)
    rows, columns, x, y = struct.unpack(WINDOW, fcntl.ioctl(fd, termios.TIOCGWINSZ, nothing))
    if columns:  # 0: nobody has told its size, and programs assume 80
        columns = max(columns - margin, min(columns, FEWEST_COLUMNS))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack(WINDOW, rows, columns, x, y))
