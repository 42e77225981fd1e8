"""The command line of hccl_test.py: the options of CANN's hccl_test, by its names and with its defaults."""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

# Blocks that may differ in count, and what moves the same where they do not.
WITHOUT_V = {
    "all_gatherv": "all_gather", "reduce_scatterv": "reduce_scatter", "alltoallv": "alltoall", "alltoallvc": "alltoall",
}  # fmt: skip
OPERATIONS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "scatter", "alltoall", *WITHOUT_V)
# Of these a size means a share for each rank: all_gather's result, the input of the others.
SHARED = ("all_gather", "reduce_scatter", "scatter", "alltoall", *WITHOUT_V)
REDUCTIONS = ("sum", "prod", "min", "max")
DTYPES = {
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "fp16": "float16", "fp32": "float32", "fp64": "float64", "bfp16": "bfloat16",
}  # fmt: skip
OTHER_DTYPES = ("int128", "hif8", "fp8e4m3", "fp8e5m2", "fp8e8m0")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Parser(argparse.ArgumentParser):
    """All ranks parse the same words; rank 0 speaks for all."""

    rank = 0

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"hccl_test.py: {message}\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message and self.rank == 0:
            sys.stderr.write(message)
        raise SystemExit(status)

    def print_help(self, file: object = None) -> None:
        if self.rank == 0:
            sys.stdout.write(self.format_help())


def parse(words: list[str], rank: int, size: int, description: str) -> argparse.Namespace:
    """The options, with `dtype` the NumPy dtype of -d. Exits with 2, and rank 0 says why, when they are wrong."""
    parser = make_parser(description)
    parser.rank = rank
    given = parser.parse_args(words)
    if given.minbytes > given.maxbytes:
        parser.error(f"-b {given.minbytes} is larger than -e {given.maxbytes}")
    if given.root >= size:
        parser.error(f"-r {given.root} is no rank of this job; expected 0 to {size - 1}")
    if given.npus not in (None, size):
        parser.error(f"-p {given.npus}: every rank has a device of its own, and hccl-run was given -n {size}")
    if given.stepfactor is not None and given.stepbytes is not None and rank == 0:
        print("hccl_test.py: -f and -i are given; -f is used", file=sys.stderr)
    if given.datatype == "bfp16":
        import ml_dtypes

        given.dtype = np.dtype(ml_dtypes.bfloat16)
    else:
        given.dtype = np.dtype(DTYPES[given.datatype])
    return given


def make_parser(description: str) -> Parser:
    parser = Parser(
        prog="hccl_test.py", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("operation", type=operation, metavar="OP", help=", ".join(OPERATIONS))
    add("-b", "--minbytes", type=nbytes_of, default="64M", metavar="SIZE", help="first size (default 64M)")
    add("-e", "--maxbytes", type=nbytes_of, default="64M", metavar="SIZE", help="last size (default 64M)")
    step = "bytes from one size to the next; 0: -b for ever (default: a tenth of the range)"
    add("-i", "--stepbytes", type=Whole(0), metavar="N", help=step)
    add("-f", "--stepfactor", type=Whole(2), metavar="N", help="factor from one size to the next, instead of -i")
    add("-n", "--iters", type=Whole(1), default=20, metavar="N", help="calls queued at once and timed (default 20)")
    add("-w", "--warmup_iters", type=Whole(0), default=10, metavar="N", help="calls before them (default 10)")
    add("-o", "--op", choices=REDUCTIONS, default="sum", help="how what reduces does it (default sum)")
    add("-d", "--datatype", type=datatype, default="fp32", metavar="TYPE", help=f"{', '.join(DTYPES)} (default fp32)")
    add("-r", "--root", type=Whole(0), default=0, metavar="RANK", help="root rank, which prints (default 0)")
    check = "0: do not check, 1: compare with NumPy, 2: and say what differs (default 1)"
    add("-c", "--check", type=int, choices=(0, 1, 2), default=1, help=check)
    add("-p", "--npus", type=Whole(1), metavar="N", help="devices of this host: as many as there are ranks")
    for short, long in (("-m", "symmetric_memory"), ("-z", "zero_copy"), ("-s", "nslb"), ("-t", "onlydevicetime")):
        add(short, f"--{long}", type=int, choices=(0,), default=0, help="of the real tool; here there is only 0")
    add("-a", "--accelerator", choices=("default",), default="default", help="of the real tool; here only default")
    add("--json", type=Path, metavar="FILE", help="write the rows, by the root rank")
    return parser


def one_of(text: str, known: Collection[str], kind: str) -> str:
    """`text`, which is one of those known; else ArgumentTypeError."""
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is no {kind}; expected one of {', '.join(known)}")
    return text


def operation(text: str) -> str:
    return one_of(text, OPERATIONS, "collective")


def datatype(text: str) -> str:
    if text in OTHER_DTYPES:
        raise argparse.ArgumentTypeError(f"no CPU computes with {text}; expected one of {', '.join(DTYPES)}")
    return one_of(text, DTYPES, "data type")


def nbytes_of(text: str) -> int:
    """'8', '64K', '16M' or '1G' in bytes."""
    match = re.fullmatch(r"([0-9]+)([KMG]?)", text.upper())
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; expected bytes like 8, 64K, 16M or 1G")
    return int(match[1]) * UNITS[match[2]]


class Whole:
    """A whole number of at least `least`."""

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, text: str) -> int:
        if not text.isdecimal() or int(text) < self.least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {self.least}")
        return int(text)


def sizes(given: argparse.Namespace, ranks: int) -> Iterator[int]:
    """The sizes in bytes, from -b to -e; without end for -i 0."""
    nbytes, end = given.minbytes, given.maxbytes
    if given.stepfactor is not None:
        while nbytes <= end:
            yield nbytes
            nbytes *= given.stepfactor
        return
    if given.stepbytes == 0:
        yield from itertools.repeat(nbytes)
    step = (end - nbytes) // 10 if given.stepbytes is None else given.stepbytes
    step = max(1, -(-step // ranks)) * ranks
    yield from range(nbytes, end + 1, step)


def count_of(operation: str, nbytes: int, itemsize: int, ranks: int) -> int:
    """Elements of a rank's block: all of them, or a rank's share (SHARED)."""
    count = -(-nbytes // itemsize)
    return -(-count // ranks) if operation in SHARED else count
