"""Splits bytes into lines that end with `\\n`, `\\r\\n` or `\\r`."""

from __future__ import annotations

__all__ = ["LineCutter"]

_LF, _CR = b"\n", b"\r"


class LineCutter:
    """Buffers bytes and returns whole lines. An incomplete line is kept until its line ending
    arrives, and so is a `\\r` at the very end, because a `\\n` may follow.

    `position`: the start position plus the bytes of the lines returned so far, with line endings.
    """

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._data = b""
        self._start = self._searched = 0

    def add(self, data: bytes) -> None:
        self._data = self._data[self._start :] + data
        self._searched -= self._start
        self._start = 0

    def next_line(self) -> bytes | None:
        """Return the next whole line without its line ending; None if it is not complete yet."""
        lf = self._data.find(_LF, self._searched)
        end = len(self._data) if lf < 0 else lf
        cr = self._data.find(_CR, self._searched, end)
        if cr < 0:
            self._searched = end
            return None if lf < 0 else self._cut(lf, lf + 1)
        after = cr + 1
        if after == len(self._data):
            self._searched = cr
            return None
        return self._cut(cr, after + (self._data[after : after + 1] == _LF))

    def _cut(self, end: int, following: int) -> bytes:
        line = self._data[self._start : end]
        self.position += following - self._start
        self._start = self._searched = following
        return line
