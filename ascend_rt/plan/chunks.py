"""Where a chunk lies: offsets in elements, for any count.

A buffer consists of blocks of `count` elements. Each block is cut into `chunks` chunks that begin at multiples of
`align` elements (64 bytes, one cache line, so that ranks working on neighbouring chunks share no line) and differ by at
most one such unit in size. With fewer units than chunks some chunks are empty. Chunks are numbered through all
blocks: chunk c of block b is the flat chunk b * chunks + c. The native executor computes the same numbers.
"""

CACHE_LINE = 64  # bytes


def alignment(itemsize: int) -> int:
    """Elements of `itemsize` bytes that chunks are aligned to."""
    return max(1, CACHE_LINE // itemsize)


def chunk_start(chunk: int, count: int, chunks: int, align: int) -> int:
    """Offset in elements at which `chunk` (0..chunks) of a block of `count` elements begins."""
    return min(count, chunk * _units(count, align) // chunks * align)


def chunk_span(chunk: int, n: int, count: int, chunks: int, align: int) -> tuple[int, int]:
    """Start and stop in elements of the `n` chunks from flat chunk `chunk` on, counted from the start of the buffer."""
    return _flat_start(chunk, count, chunks, align), _flat_start(chunk + n, count, chunks, align)


def scratch_stride(count: int, chunks: int, align: int) -> int:
    """Elements from one scratch chunk to the next: every chunk of the block fits into one."""
    return -(-_units(count, align) // chunks) * align


def _units(count: int, align: int) -> int:
    return -(-count // align)


def _flat_start(chunk: int, count: int, chunks: int, align: int) -> int:
    block, within = divmod(chunk, chunks)
    return block * count + chunk_start(within, count, chunks, align)
