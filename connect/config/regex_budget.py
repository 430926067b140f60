"""Limits the compilation of regular expressions, and decides which thread compiles when.

To compile a long pattern takes the CPU for up to a second or two, and for parts of that no other
thread runs. Therefore one thread at a time compiles long patterns, and all the patterns of one
request together are limited. Short patterns take milliseconds and wait for nobody.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "LONGEST",
    "SHORT",
    "RegexBudget",
    "TooMuch",
    "current",
    "regex_budget",
    "turn",
]

LONGEST = 32_768
"""Characters of a pattern: a list of 1,200 topics of 25 characters. To compile the worst of twice
this length, `(|a)` repeated, took 1.2 to 1.8 s of CPU."""
SHORT = 1_000
"""Limit of characters, and of ranges, of a short pattern: 50 ms."""
_EACH = 16
"""Even the shortest pattern takes as long as this many characters of a long one."""
_PER_REQUEST = 8 * LONGEST
_WAIT_S = 10.0
"""How long a request may wait for all its turns together."""
_CONNECTOR_WAIT_S = 60.0
"""How long a connector that starts may wait for one turn: six times as long as a request."""

_turn = threading.Lock()


class TooMuch(ValueError):
    """The patterns are too many or too long, or the turn did not come in time."""


@dataclass
class RegexBudget:
    """Counts what one request has compiled. Used only by the request's thread."""

    left: int
    wait_s: float
    compiled: dict[str, Any] = field(default_factory=dict)
    """Compiled patterns by their text, because several rules use the same one."""

    def take(self, characters: int) -> None:
        """Count this work. Raises `TooMuch` if it exceeds the budget."""
        self.left -= characters + _EACH
        if self.left < 0:
            raise TooMuch(
                f"The patterns of one config have more than {_PER_REQUEST} characters together, "
                "with their repetitions written out"
            )


_current: ContextVar[RegexBudget | None] = ContextVar("regex_budget", default=None)


@contextmanager
def regex_budget() -> Iterator[None]:
    """Limit what this thread compiles within."""
    token = _current.set(RegexBudget(_PER_REQUEST, _WAIT_S))
    try:
        yield
    finally:
        _current.reset(token)


def current() -> RegexBudget | None:
    """Return the budget of this thread's request. None: the patterns are the program's own, or
    those of a running connector, which were validated once."""
    return _current.get()


@contextmanager
def turn(size: int) -> Iterator[None]:
    """Wait until no other thread compiles a long pattern. `size`: characters or ranges, whichever
    are more.

    Raises `TooMuch` if a request does not get its turn in time. A connector's thread then goes
    on: it must not fail because others validate.
    """
    if size <= SHORT:
        yield
        return
    budget = _current.get()
    began = time.monotonic()
    got = _turn.acquire(timeout=_CONNECTOR_WAIT_S if budget is None else max(budget.wait_s, 0.0))
    try:
        if budget is not None:
            budget.wait_s -= time.monotonic() - began
            if not got:
                raise TooMuch("The worker compiles other long patterns; try again later")
        with _without_collections():
            yield
    finally:
        if got:
            _turn.release()


@contextmanager
def _without_collections() -> Iterator[None]:
    """Run the block without garbage collection. The compiler creates some hundred thousand objects
    and needs them until its end. A collection among them would stop all threads, for longer than
    any other step."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
