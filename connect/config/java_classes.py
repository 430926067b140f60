r"""Character classes of Java's regular expressions as sets of code points.

Java's classes nest, unite and intersect (`[a-z&&[^aeiou]]`), which Python's `re` does not support.
The sets are computed here and written as plain ranges. Like Java without flags, `\d`, `\w`, `\s`
and the POSIX names mean ASCII. Categories follow this Python's Unicode tables.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["CharSet", "Range", "named_class", "predefined_class"]

LAST_CODE_POINT = 0x10FFFF
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CharSet:
    """A set of code points as sorted, inclusive ranges that neither touch nor overlap."""

    ranges: tuple[Range, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> CharSet:
        merged: list[Range] = []
        for low, high in sorted(ranges):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def chars(cls, text: str) -> CharSet:
        return cls.of((ord(char), ord(char)) for char in text)

    def union(self, other: CharSet) -> CharSet:
        return CharSet.of(self.ranges + other.ranges)

    def complement(self) -> CharSet:
        inverted: list[Range] = []
        start = 0
        for low, high in self.ranges:
            if low > start:
                inverted.append((start, low - 1))
            start = high + 1
        if start <= LAST_CODE_POINT:
            inverted.append((start, LAST_CODE_POINT))
        return CharSet(tuple(inverted))

    def intersection(self, other: CharSet) -> CharSet:
        return self.complement().union(other.complement()).complement()

    def python(self) -> str:
        """Return this set in the syntax of Python's `re`."""
        if not self.ranges:
            return "(?!)"
        return f"[{''.join(_range(low, high) for low, high in self.ranges)}]"


def _range(low: int, high: int) -> str:
    return f"\\U{low:08x}" if low == high else f"\\U{low:08x}-\\U{high:08x}"


def _ascii(*ranges: tuple[str, str]) -> CharSet:
    return CharSet.of((ord(low), ord(high)) for low, high in ranges)


_DIGIT = _ascii(("0", "9"))
_WORD = _ascii(("a", "z"), ("A", "Z"), ("0", "9"), ("_", "_"))
_SPACE = CharSet.chars(" \t\n\x0b\f\r")
_HORIZONTAL = CharSet.chars(" \t\xa0\u1680\u180e\u202f\u205f\u3000").union(
    CharSet(((0x2000, 0x200A),))
)
_VERTICAL = CharSet.chars("\n\x0b\f\r\x85\u2028\u2029")
_GRAPH = _ascii(("!", "~"))
_ALNUM = _ascii(("a", "z"), ("A", "Z"), ("0", "9"))

_PREDEFINED = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "h": _HORIZONTAL, "v": _VERTICAL}

_POSIX = {
    "Lower": _ascii(("a", "z")),
    "Upper": _ascii(("A", "Z")),
    "ASCII": _ascii(("\x00", "\x7f")),
    "Alpha": _ascii(("a", "z"), ("A", "Z")),
    "Digit": _DIGIT,
    "Alnum": _ALNUM,
    "Punct": _GRAPH.intersection(_ALNUM.complement()),
    "Graph": _GRAPH,
    "Print": _ascii((" ", "~")),
    "Blank": CharSet.chars(" \t"),
    "Cntrl": _ascii(("\x00", "\x1f"), ("\x7f", "\x7f")),
    "XDigit": _ascii(("0", "9"), ("a", "f"), ("A", "F")),
    "Space": _SPACE,
}

_PREDICATES: dict[str, Callable[[str], bool]] = {
    "IsAlphabetic": str.isalpha,
    "IsLetter": str.isalpha,
    "IsLowercase": str.islower,
    "IsUppercase": str.isupper,
    "IsDigit": lambda char: unicodedata.category(char) == "Nd",
    "IsPunctuation": lambda char: unicodedata.category(char).startswith("P"),
    "IsWhite_Space": str.isspace,
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaWhitespace": str.isspace,
    "javaLetter": str.isalpha,
    "javaDigit": lambda char: unicodedata.category(char) == "Nd",
}

_CATEGORIES = {
    "C": "cfons",
    "L": "ultmo",
    "M": "nce",
    "N": "dlo",
    "P": "cdseifo",
    "S": "mcko",
    "Z": "slp",
}
"""Major category -> its minor categories."""


def predefined_class(letter: str) -> CharSet | None:
    r"""Return the set of the escape `\letter` (`d`, `W`, `h`, ...), or None if it is not a
    class.
    """
    found = _PREDEFINED.get(letter.lower())
    if found is None:
        return None
    return found if letter.islower() else found.complement()


@lru_cache(maxsize=32)
def named_class(name: str) -> CharSet | None:
    r"""Return the set of `\p{name}`, or None for unknown names (scripts and blocks)."""
    if name in _POSIX:
        return _POSIX[name]
    if name in _PREDICATES:
        return _where(_PREDICATES[name])
    category = name.removeprefix("general_category=").removeprefix("gc=").removeprefix("Is")
    if category == "LC":
        return _where(lambda char: unicodedata.category(char) in {"Lu", "Ll", "Lt"})
    minors = _CATEGORIES.get(category[:1])
    if minors is not None and len(category) <= 2 and category[1:] in minors:
        return _where(lambda char: unicodedata.category(char).startswith(category))
    return None


def _where(test: Callable[[str], bool]) -> CharSet:
    return CharSet.of((code, code) for code in range(LAST_CODE_POINT + 1) if test(chr(code)))
