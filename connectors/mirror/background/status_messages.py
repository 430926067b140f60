"""Combines the current problems of a connector's parts into one status message."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

__all__ = ["StatusMessages"]


class StatusMessages:
    """Combines the status messages of several parts. Thread-safe."""

    def __init__(self, report: Callable[[str | None], None]) -> None:
        """`report` receives the current problems of all parts, in order; None if there are none."""
        self._report = report
        self._lock = threading.Lock()
        self._told: dict[str, str] = {}

    def part(self, name: str) -> Callable[[str | None], None]:
        """Return a callback with which the part `name` reports its problem, or None once it is
        resolved."""
        return partial(self._tell, name)

    def _tell(self, name: str, trouble: str | None) -> None:
        with self._lock:
            before = dict(self._told)
            if trouble is None:
                self._told.pop(name, None)
            else:
                self._told[name] = trouble
            if self._told != before:
                self._report("\n".join(self._told[each] for each in sorted(self._told)) or None)
