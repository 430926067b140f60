"""Waiting for a condition, with a deadline and words for what was awaited."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from connect.clock import Deadline
from connect.errors import DeadlineExceeded

__all__ = ["wait_until"]

T = TypeVar("T")
# A wait asks again after this share of its time until now: what comes soon is seen soon, and what
# takes long is not asked for so often that the answers keep the machine busy.
_SHARE, _LEAST_S, _MOST_S = 0.1, 0.05, 0.15


def wait_until(condition: Callable[[], T], timeout_s: float, what: str) -> T:
    """Ask `condition` again and again until its answer is true, and return that answer.

    Raises `DeadlineExceeded` with `what`, the time and the last answer.
    """
    deadline = Deadline(timeout_s)
    pause = threading.Event()
    while True:
        answer = condition()
        if answer:
            return answer
        if deadline.expired():
            raise DeadlineExceeded(f"{what}: not within {timeout_s:g} s (last: {answer!r})")
        left = deadline.remaining()
        pause.wait(min(left, max(_LEAST_S, min(_MOST_S, _SHARE * (timeout_s - left)))))
