"""A row of the table of settings: how a variable is called, parsed and explained, and the parsers.

A parser is called with the text of a variable and returns its value, or raises ValueError; `expected` says in words
what it takes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Literal, Protocol, Self, TypeVar, cast, overload

Value = TypeVar("Value", covariant=True)
Kind = Literal["system", "launcher", "debug"]
Parser = Callable[[str], Value]


class SettingError(ValueError):
    """A setting has a value that it may not have: says its name, its value and what was expected.

    code    EI0001 for an environment variable, EI0016 for a field of a communicator's configuration
    """

    def __init__(self, name: str, given: str, expected: str, *, field: str = "") -> None:
        self.name, self.given, self.expected = name, given, expected
        self.code = "EI0016" if field else "EI0001"
        what = f"{field}, which stands for {name}," if field else f"environment variable {name}"
        super().__init__(f"{self.code}: {what} is {given}; expected {expected}.")


@dataclass(frozen=True)
class Whole:
    """Parses a whole number in [low, high]: decimal digits and nothing else."""

    low: int
    high: int = 2**31 - 1

    @property
    def expected(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def __call__(self, text: str) -> int:
        # int() alone would also take " 1", "+1", "1_000" and digits of other scripts.
        if not re.fullmatch(r"[0-9]{1,18}", text) or not self.low <= int(text) <= self.high:
            raise ValueError(self.expected)
        return int(text)


@dataclass(frozen=True)
class Choice:
    """Parses one of a few words, exactly as spelt."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.words)

    def __call__(self, text: str) -> str:
        if text not in self.words:
            raise ValueError(self.expected)
        return text


@dataclass(frozen=True)
class AnyCase:
    """Parses one of a few words in small or capital letters, and gives it as it is spelt here."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.words)

    def __call__(self, text: str) -> str:
        if text.lower() not in self.words:
            raise ValueError(self.expected)
        return text.lower()


@dataclass(frozen=True)
class Switch:
    """Parses 0 and 1."""

    expected: str = "0 or 1"

    def __call__(self, text: str) -> bool:
        if text not in ("0", "1"):
            raise ValueError(self.expected)
        return text == "1"


@dataclass(frozen=True)
class Word:
    """Parses a name or an address: at least one character, no white space."""

    expected: str = "a name without white space"

    def __call__(self, text: str) -> str:
        if not re.fullmatch(r"\S+", text):
            raise ValueError(self.expected)
        return text


@dataclass(frozen=True)
class Text:
    """Parses any text but the empty one."""

    expected: str = "a text"

    def __call__(self, text: str) -> str:
        if not text:
            raise ValueError(self.expected)
        return text


@dataclass(frozen=True)
class DeviceIds:
    """Parses a list of device ids that ascends, as CANN wants it.

    CANN drops what follows the first entry that it cannot read, and says nothing; here that is an error.
    """

    expected: str = "device ids that ascend, separated by commas: 0,1,4"

    def __call__(self, text: str) -> tuple[int, ...]:
        for entry in text.split(","):
            if not re.fullmatch(r"[0-9]{1,9}", entry):
                raise ValueError(f"{self.expected}; {entry!r} is no device id")
        ids = tuple(map(int, text.split(",")))
        for before, after in pairwise(ids):
            if after <= before:
                raise ValueError(f"{self.expected}; {after} comes after {before}")
        return ids


OPERATORS = ("allgather", "reducescatter", "allreduce", "broadcast", "reduce", "scatter", "alltoall")
ALGORITHMS = ("ring", "H-D_R", "NHR", "NHR_V1", "NB", "AHC", "pipeline", "pairwise")


@dataclass(frozen=True)
class Algorithms:
    """HCCL_ALGO, parsed: per operator ("" where it stands for all) the algorithm of each level that is named."""

    by_operator: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]

    def of(self, operator: str, level: str) -> str | None:
        """The algorithm for an operator, such as "allreduce", on a level, such as "level1"; None: nothing is said, or
        NA."""
        table = {name: dict(levels) for name, levels in self.by_operator}
        named = table.get(operator, table.get("", {})).get(level)
        return None if named == "NA" else named

    def __str__(self) -> str:
        parts = (
            (f"{name}=" if name else "") + ";".join(f"{level}:{algorithm}" for level, algorithm in levels)
            for name, levels in self.by_operator
        )
        return "/".join(parts)


@dataclass(frozen=True)
class AlgorithmsOf:
    """Parses HCCL_ALGO in both of its spellings: for all operators, or for each that is named."""

    expected: str = "level0:NA;level1:ALGORITHM;level2:ALGORITHM, or OPERATOR=that/OPERATOR=that"

    def __call__(self, text: str) -> Algorithms:
        per_operator = "=" in text
        parsed = []
        for part in text.split("/"):
            operator, equals, levels = part.rpartition("=")
            if bool(equals) != per_operator or (not per_operator and "/" in text):
                raise ValueError(f"{self.expected}; {part!r} is neither")
            if per_operator and operator not in OPERATORS:
                raise ValueError(f"{self.expected}; {operator!r} is none of the operators {', '.join(OPERATORS)}")
            parsed.append((operator, tuple(self._level(level) for level in levels.split(";"))))
        for names in [[operator for operator, _ in parsed], *([level for level, _ in levels] for _, levels in parsed)]:
            for name in {name for name in names if names.count(name) > 1}:
                raise ValueError(f"{self.expected}; {name or 'an operator'} stands there twice")
        return Algorithms(tuple(parsed))

    def _level(self, text: str) -> tuple[str, str]:
        level, _, algorithm = text.partition(":")
        if level not in ("level0", "level1", "level2"):
            raise ValueError(f"{self.expected}; {text!r} begins with none of level0:, level1:, level2:")
        if level == "level0" and algorithm != "NA":
            raise ValueError(f"{self.expected}; level0 is {algorithm!r}, which follows from the topology: only NA")
        if algorithm not in ("NA", *ALGORITHMS):
            raise ValueError(f"{self.expected}; {algorithm!r} is none of the algorithms {', '.join(ALGORITHMS)}")
        return level, algorithm


@dataclass(frozen=True)
class OwnAlgorithms:
    """ASCEND_RT_ALGO, parsed: collectives, and the algorithm that is to carry out each."""

    by_collective: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "/".join("=".join(pair) for pair in self.by_collective)


@dataclass(frozen=True)
class OwnAlgorithmsOf:
    """Parses ASCEND_RT_ALGO. Which names there are, only the registry of plans knows: a communicator looks there."""

    expected: str = "COLLECTIVE=ALGORITHM/COLLECTIVE=ALGORITHM by ascend_rt's own names, such as all_reduce=ring"

    def __call__(self, text: str) -> OwnAlgorithms:
        parsed = []
        for part in text.split("/"):
            collective, _, algorithm = part.partition("=")
            if not re.fullmatch(r"[a-z_]+", collective) or not re.fullmatch(r"[A-Za-z_+-]+", algorithm):
                raise ValueError(f"{self.expected}; {part!r} is none")
            parsed.append((collective, algorithm))
        if len(dict(parsed)) < len(parsed):
            raise ValueError(f"{self.expected}; a collective stands there twice")
        return OwnAlgorithms(tuple(parsed))


@dataclass(frozen=True)
class CacheFolder:
    """Parses XDG_CACHE_HOME as its specification has it: what is empty, or no absolute path, counts as not set."""

    expected: str = "an absolute path"

    def __call__(self, text: str) -> str | None:
        return text if text.startswith("/") else None


class Parsed(Protocol):
    """What has the values of all rows by name: `Settings`."""

    @property
    def values(self) -> Mapping[str, object]: ...


class Setting(Generic[Value]):
    """One row. As an attribute of `Settings` it is the value.

    agree   all ranks of a communicator must have the same value
    cann    what CANN takes, where that is less; ASCEND_RT_STRICT=1 refuses the rest
    """

    def __init__(
        self,
        name: str,
        parser: Parser[Value],
        default: Value,
        kind: Kind,
        unit: str,
        sentence: str,
        *,
        agree: bool = False,
        cann: Parser[Value] | None = None,
    ) -> None:
        self.name, self.parser, self.default = name, parser, default
        self.kind, self.unit, self.sentence = kind, unit, sentence
        self.agree, self.cann = agree, cann

    @property
    def expected(self) -> str:
        """What the parser takes, in words."""
        return str(getattr(self.parser, "expected", self.parser))

    def parse(self, environ: Mapping[str, str], field: str = "") -> Value:
        """The value in `environ`, or the default when it is not set; SettingError when it is set to anything else.

        field: what `environ` stands for where it is no environment.
        """
        return self._parse(self.parser, environ, field)

    def notice(self, environ: Mapping[str, str]) -> str:
        """What CANN would say to a value that is right here; empty if nothing."""
        if self.cann is not None:
            try:
                self._parse(self.cann, environ, "")
            except SettingError as error:
                return f"{self.name} is {error.given}; CANN takes {error.expected}. ASCEND_RT_STRICT=1 refuses it too"
        return ""

    def parse_as_cann(self, environ: Mapping[str, str]) -> Value:
        """`parse`, by CANN's limits."""
        return self._parse(self.cann or self.parser, environ, "")

    def _parse(self, parser: Parser[Value], environ: Mapping[str, str], field: str) -> Value:
        text = environ.get(self.name)
        if text is None:
            return self.default
        try:
            return parser(text)
        except ValueError as error:
            given = repr(text) if text else "set but empty"
            unit = f", in {self.unit}" if self.unit else ""
            default = "" if self.default is None else f" ({shown(self.default)} when not set)"
            raise SettingError(self.name, given, f"{error}{unit}{default}", field=field) from None

    @overload
    def __get__(self, settings: None, owner: type) -> Self: ...
    @overload
    def __get__(self, settings: Parsed, owner: type) -> Value: ...
    def __get__(self, settings: Parsed | None, owner: type) -> Self | Value:
        return self if settings is None else cast(Value, settings.values[self.name])


def shown(value: object) -> str:
    """A value as it is written in the environment."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "not set" if value is None else str(value)
