"""Counts how large a regular expression is for the compiler, and refuses one that is too large.

The compiler writes out what a repetition must contain: `(ab){1000}` as a thousand copies and a
loop, `(ab)+` as one copy and a loop. Inside each other they multiply, and a dozen characters can
take all memory. Meanwhile no other thread runs.
"""

from __future__ import annotations

import re

from connect.config.java_classes import CharSet
from connect.config.regex_budget import LONGEST

__all__ = ["COUNT", "JavaRegexError", "PatternSize"]

_MOST_WRITTEN_OUT = 2 * LONGEST
"""Characters and ranges of a pattern with its repetitions written out. To compile 16 times as many
took 3 to 4 s and 380 MB. Counts, repetitions inside each other and large classes lead there."""
_MOST_RANGES = 16_384
"""Ranges in the character classes of a pattern, `[a-z]` being one and `\\p{L}` some 650. To compile
twice as many took up to 1.2 s of CPU."""
COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")
"""A counted repetition: its least, and after a comma its most."""


class JavaRegexError(ValueError):
    """A pattern that Java or Python refuses. `position` is an index into it."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} near index {position}")
        self.reason = reason
        self.position = position


class PatternSize:
    """The size of one pattern so far. Its methods raise `JavaRegexError` with the position `at`."""

    def __init__(self) -> None:
        self.written_out = 0
        self.ranges = 0
        """Counted when a class is read and when it is written."""

    @property
    def largest(self) -> int:
        return max(self.written_out, self.ranges)

    def read(self, found: CharSet, at: int) -> CharSet:
        """Count a class, or a part of it, and return it."""
        self.ranges += len(found.ranges)
        if self.ranges > _MOST_RANGES:
            raise JavaRegexError(
                f"The character classes have more than {_MOST_RANGES} ranges together", at
            )
        return found

    def write(self, count: int, at: int) -> None:
        """Count characters or ranges of the translated pattern."""
        self.written_out += count
        if self.written_out > _MOST_WRITTEN_OUT:
            raise JavaRegexError(
                "The repetitions make the pattern too large: written out, it has more than "
                f"{_MOST_WRITTEN_OUT} characters; use smaller counts, or fewer repetitions inside "
                "others",
                at,
            )

    def repeat(self, quantifier: str, since: int, at: int) -> None:
        """Count the copies of all that was written since `written_out` was `since`."""
        self.write(_copies(quantifier) * (self.written_out - since), at)


def _copies(quantifier: str) -> int:
    """Return how many copies the compiler makes besides the one in the loop."""
    if quantifier[0] == "+":
        return 1
    count = COUNT.match(quantifier)
    if count is None or (int(count[1]) == 1 and count[3] in (None, "1")):
        return 0
    return int(count[1])
