"""Versions of plugins and version ranges (KIP-891). Pure.

`1.2` means exactly that version. Ranges are written like `[1.0,2.0)`, `(,3]` and `[1,2],[4,)`.
`latest` or an empty text accepts any version.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from connect.runtime.errors import BadRequest

__all__ = ["VersionRange"]

_PART = re.compile(r"\d+|[a-zA-Z]+")
_INTERVAL = re.compile(r"([\[(])([^,\[\]()]*+)(?:(,)([^,\[\]()]*+))?([\])])")
# Qualifiers that come before the release, in Maven's order; other words come after it.
_BEFORE_RELEASE = {
    "alpha": -5,
    "a": -5,
    "beta": -4,
    "b": -4,
    "milestone": -3,
    "m": -3,
    "rc": -2,
    "cr": -2,
    "snapshot": -1,
}

_Ordered = tuple[tuple[int, int, str], ...]


def _ordered(version: str) -> _Ordered:
    """Return a comparable version. Zeros before a word or the end are ignored: 1.0-rc equals
    1-rc.
    """
    parts: list[tuple[int, int, str]] = []
    for part in [*_PART.findall(version), ""]:
        if part.isdigit():
            digits = part.lstrip("0")
            parts.append((1, len(digits), digits))
            continue
        while parts and parts[-1] == (1, 0, ""):
            parts.pop()
        if part:
            parts.append((_BEFORE_RELEASE.get(part.lower(), 0), 0, part.lower()))
    return tuple(parts)


def _compare(one: str, other: str) -> int:
    nothing = (0, 0, "")
    for a, b in itertools.zip_longest(_ordered(one), _ordered(other), fillvalue=nothing):
        if a != b:
            return -1 if a < b else 1
    return 0


@dataclass(frozen=True, slots=True)
class _Interval:
    low: str
    high: str
    low_included: bool
    high_included: bool

    def __contains__(self, version: str) -> bool:
        if self.low:
            order = _compare(version, self.low)
            if order < 0 or (order == 0 and not self.low_included):
                return False
        if self.high:
            order = _compare(version, self.high)
            if order > 0 or (order == 0 and not self.high_included):
                return False
        return True

    def __str__(self) -> str:
        opening, closing = "[" if self.low_included else "(", "]" if self.high_included else ")"
        return f"{opening}{self.low},{self.high}{closing}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions that a config accepts. An empty range accepts all."""

    intervals: tuple[_Interval, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> VersionRange:
        """Parse the value of a `...plugin.version` property. Raises `BadRequest`."""
        if text is None or text == "latest":
            return cls()
        spec = text.strip()
        if spec and spec[0] not in "[(":
            return cls((_Interval(spec, spec, True, True),))
        intervals = []
        rest = spec
        while rest:
            found = _INTERVAL.match(rest)
            if found is None:
                raise BadRequest(f"Unbounded range: {spec}")
            intervals.append(_interval(found, spec))
            rest = rest[found.end() :].lstrip().removeprefix(",").lstrip()
        return cls(tuple(intervals))

    def __contains__(self, version: str) -> bool:
        return not self.intervals or any(version in interval for interval in self.intervals)

    def __str__(self) -> str:
        return ",".join(str(interval) for interval in self.intervals)


def _interval(found: re.Match[str], spec: str) -> _Interval:
    opening, low, comma, high, closing = ((part or "").strip() for part in found.groups())
    if not comma:
        if (opening, closing) != ("[", "]"):
            raise BadRequest(f"Single version must be surrounded by []: {spec}")
        return _Interval(low, low, True, True)
    if low and high and _compare(high, low) < 0:
        raise BadRequest(f"Range defies version ordering: {spec}")
    return _Interval(low, high, opening == "[", closing == "]")
