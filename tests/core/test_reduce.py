"""The reduction kernels, held against NumPy: every dtype and op in every variant, bit for bit."""

import ctypes
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
SOURCES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "ascend_rt" / "core").glob("reduce*.c"))

SUM, PROD, MAX, MIN, AVG = range(5)
OPS = {"sum": SUM, "prod": PROD, "max": MAX, "min": MIN, "avg": AVG}
VARIANTS = {"plain": 0, "avx2": 1, "avx512": 2, "neon": 3}
PLAIN = VARIANTS["plain"]

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES: dict[np.dtype[Any], int] = {
    np.dtype(np.int8): 0,
    np.dtype(np.int16): 1,
    np.dtype(np.int32): 2,
    np.dtype(np.float16): 3,
    np.dtype(np.float32): 4,
    np.dtype(np.int64): 5,
    np.dtype(np.uint64): 6,
    np.dtype(np.uint8): 7,
    np.dtype(np.uint16): 8,
    np.dtype(np.uint32): 9,
    np.dtype(np.float64): 10,
    BF16: 11,
}
FLOATS = [dtype for dtype in DTYPES if dtype.kind not in "iu"]
INTEGERS = [dtype for dtype in DTYPES if dtype.kind in "iu"]
QUIET_NAN = {np.dtype(np.float16): 0x7E00, BF16: 0x7FC0, np.dtype(np.float32): 0x7FC00000}
QUIET_NAN[np.dtype(np.float64)] = 0x7FF8000000000000

Array = NDArray[Any]


def bits(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


class NativeBuild(Protocol):
    def library(self, sources: list[str]) -> Path: ...


class Kernels:
    """reduce.h through ctypes, in one variant."""

    def __init__(self, library: ctypes.CDLL, variant: int) -> None:
        self.library, self.variant = library, variant

    def reduce(self, op: int, sources: list[Array], dsts: list[Array], divisor: int = 1) -> None:
        dtype = sources[0].dtype
        assert {array.dtype for array in [*sources, *dsts]} == {dtype}
        assert {array.shape for array in [*sources, *dsts]} == {sources[0].shape}
        kernel = self.library.find_reduce(DTYPES[dtype], op, self.variant)
        addresses = [(ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)) for arrays in (dsts, sources)]
        kernel(addresses[0], len(dsts), addresses[1], len(sources), sources[0].size, divisor)

    def __call__(self, op: int, *sources: Array, divisor: int = 1) -> Array:
        result = np.empty_like(sources[0])
        self.reduce(op, list(sources), [result], divisor)
        return result


@pytest.fixture(scope="session")
def library(native: NativeBuild) -> ctypes.CDLL:
    library = ctypes.CDLL(str(native.library(SOURCES)))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    kernel = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int, pointer, ctypes.c_int, size, ctypes.c_uint32)
    library.find_reduce.restype = kernel
    library.dtype_nbytes.restype = size
    library.has_kernel_variant.restype = ctypes.c_bool
    return library


@pytest.fixture(params=VARIANTS)
def kernels(library: ctypes.CDLL, request: pytest.FixtureRequest) -> Kernels:
    variant = VARIANTS[request.param]
    if not library.has_kernel_variant(variant):
        pytest.skip(f"this processor does not run {request.param}")
    return Kernels(library, variant)


def reference(op: int, sources: list[Array], divisor: int = 1) -> Array:
    """What reduce.h promises, in NumPy."""
    dtype = sources[0].dtype
    if dtype.kind in "iu":
        accumulator = np.dtype(f"{dtype.kind}8") if op == AVG else dtype
    else:
        accumulator = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    with np.errstate(all="ignore"):
        acc = sources[0].astype(accumulator)
        for source in sources[1:]:
            following = source.astype(accumulator)
            if op in (SUM, AVG):
                acc = acc + following
            elif op == PROD:
                acc = acc * following
            else:
                wins = following > acc if op == MAX else following < acc
                acc = np.where(wins | (following != following), following, acc)
        if op == AVG and dtype.kind in "iu":
            quotient = np.abs(acc).astype(np.uint64) // np.uint64(divisor) if dtype.kind == "i" else acc // divisor
            acc = np.where(acc < 0, np.negative(quotient.view(accumulator)), quotient.view(accumulator))
        elif op == AVG:
            acc = acc / accumulator.type(divisor)
        result = acc.astype(dtype)
    if dtype in QUIET_NAN:
        bits(result)[result != result] = QUIET_NAN[dtype]
    return result


def random_sources(rng: np.random.Generator, dtype: np.dtype[Any], nsrc: int, count: int) -> list[Array]:
    """Every bit pattern is likely in the narrow types; the wide floats get infinities, NaN and zeros on top."""
    sources = [np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy() for _ in range(nsrc)]
    if dtype in QUIET_NAN:
        edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]).astype(dtype)
        for source in sources:
            places = rng.random(count) < 0.2
            source[places] = rng.choice(edges, places.sum())
    return sources


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_are_the_reference_s(kernels: Kernels, dtype: np.dtype[Any], op: int) -> None:
    rng = np.random.default_rng([DTYPES[dtype], op])
    for nsrc in (1, 2, 3, 8):
        for count in (0, 1, 15, 64, 513):
            sources = random_sources(rng, dtype, nsrc, count)
            divisor = int(rng.integers(1, 10))
            got = kernels(op, *sources, divisor=divisor)
            np.testing.assert_array_equal(bits(got), bits(reference(op, sources, divisor)), f"{nsrc} x {count}")


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_all_patterns_of_16_bits(kernels: Kernels, dtype: np.dtype[Any], op: int) -> None:
    patterns = np.arange(65536, dtype=np.uint16).view(dtype)
    partners = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        3.0,
        1e-3,
        2.0**-14,
        2.0**-24,
        2.0**-133,
        65504.0,
        2.0**127,
        np.inf,
        -np.inf,
        np.nan,
    ]
    rng = np.random.default_rng(op)
    drawn = rng.integers(0, 65536, 10, dtype=np.uint16).view(dtype)
    with np.errstate(over="ignore"):
        every = np.concatenate([np.array(partners).astype(dtype), drawn])
    for partner in every:
        pair = [patterns, np.full_like(patterns, partner)]
        got = kernels(op, *pair, divisor=2)
        np.testing.assert_array_equal(bits(got), bits(reference(op, pair, 2)), f"partner {partner}")


@pytest.mark.parametrize(
    ("dtype", "large", "expected"), [(np.dtype(np.float16), 2048, 2056), (BF16, 256, 264)], ids=["fp16", "bf16"]
)
def test_sum_of_halves_rounds_once(kernels: Kernels, dtype: np.dtype[Any], large: int, expected: int) -> None:
    """Rounded after each addition, the ones would vanish; 7 of them make a tie, which goes to even."""
    sources = [np.full(65, value, dtype) for value in [large] + [1] * 7]
    np.testing.assert_array_equal(kernels(SUM, *sources), np.full(65, expected, dtype))


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_of_any_source_is_the_quiet_nan(kernels: Kernels, dtype: np.dtype[Any], op: int) -> None:
    rng = np.random.default_rng(op)
    negative_with_payload = {2: 0xFFC1, 4: 0xFFC12345, 8: 0xFFF8000000000123}[dtype.itemsize]
    for count in (1, 15, 64):
        for position in range(3):
            sources = [rng.uniform(1, 2, count).astype(dtype) for _ in range(3)]
            index = int(rng.integers(count))
            bits(sources[position])[index] = negative_with_payload
            got = kernels(op, *sources, divisor=3)
            assert bits(got)[index] == QUIET_NAN[dtype]
            assert np.isfinite(np.delete(got, index).astype(np.float64)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_max_and_min_keep_the_zero_listed_first(kernels: Kernels, dtype: np.dtype[Any]) -> None:
    plus, minus = np.full(70, 0.0).astype(dtype), np.full(70, -0.0).astype(dtype)
    for op in (MAX, MIN):
        np.testing.assert_array_equal(bits(kernels(op, plus, minus)), bits(plus))
        np.testing.assert_array_equal(bits(kernels(op, minus, plus)), bits(minus))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_infinities_and_subnormals(kernels: Kernels, dtype: np.dtype[Any]) -> None:
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    largest, smallest = info.max, info.smallest_subnormal
    left = np.array([np.inf, np.inf, largest, smallest, smallest]).astype(dtype)
    right = np.array([1, -np.inf, largest, smallest, -smallest]).astype(dtype)
    expected = np.array([np.inf, np.nan, np.inf, 2 * float(smallest), 0]).astype(dtype)
    np.testing.assert_array_equal(kernels(SUM, left, right), expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap(kernels: Kernels, dtype: np.dtype[Any]) -> None:
    info = np.iinfo(dtype)
    largest, one = np.full(67, info.max, dtype), np.full(67, 1, dtype)
    np.testing.assert_array_equal(kernels(SUM, largest, one), np.full(67, info.min, dtype))
    np.testing.assert_array_equal(kernels(PROD, largest, largest), np.full(67, 1, dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_average_of_integers_sums_in_64_bits_and_rounds_toward_zero(kernels: Kernels, dtype: np.dtype[Any]) -> None:
    sources = [np.array([100, 7, 0]).astype(dtype), np.array([100, 0, 1]).astype(dtype)]
    np.testing.assert_array_equal(kernels(AVG, *sources, divisor=2), np.array([100, 3, 0]))
    if dtype.kind == "i":
        np.testing.assert_array_equal(
            kernels(AVG, *(-source for source in sources), divisor=2), np.array([-100, -3, 0])
        )


def test_sum_ignores_the_divisor(kernels: Kernels) -> None:
    source = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(kernels(SUM, source, source, divisor=7), 2 * source)


@pytest.mark.parametrize("ndst", [1, 2, 5])
@pytest.mark.parametrize("nsrc", [1, 2, 5])
def test_every_destination_gets_the_result_in_place_too(kernels: Kernels, nsrc: int, ndst: int) -> None:
    rng = np.random.default_rng([nsrc, ndst])
    for in_place in range(nsrc):
        sources = random_sources(rng, np.dtype(np.float16), nsrc, 333)
        expected = reference(SUM, sources)
        dsts = [sources[in_place]] + [np.empty_like(sources[0]) for _ in range(ndst - 1)]
        kernels.reduce(SUM, sources, dsts)
        for dst in dsts:
            np.testing.assert_array_equal(bits(dst), bits(expected))


def test_unknown_numbers_have_no_kernel(library: ctypes.CDLL) -> None:
    unknown = [(-1, SUM, PLAIN), (12, SUM, PLAIN), (0, -1, PLAIN), (0, 5, PLAIN), (0, SUM, 4)]
    for dtype, op, variant in [*unknown, (15, SUM, PLAIN), (16, MAX, PLAIN)]:
        assert not library.find_reduce(dtype, op, variant)
    assert [library.dtype_nbytes(number) for number in (-1, 12, 13, 14, 15, 16, 17)] == [0, 0, 0, 0, 1, 1, 0]
    assert {number: library.dtype_nbytes(number) for number in DTYPES.values()} == {
        number: dtype.itemsize for dtype, number in DTYPES.items()
    }


def test_the_best_variant_runs_here(library: ctypes.CDLL) -> None:
    assert library.has_kernel_variant(library.best_kernel_variant())
    assert library.has_kernel_variant(PLAIN)
    assert not any(library.has_kernel_variant(number) for number in (-1, len(VARIANTS)))


@pytest.mark.thorough
def test_variants_agree_under_sanitizers(compile_and_run: Callable[..., str]) -> None:
    program = ["tests/core/native/reduce_variants_agree.c", *SOURCES]
    print(compile_and_run(program, "address", str(secrets.randbits(32)), "60"))
