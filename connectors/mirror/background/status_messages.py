"""What a connector cannot do for now: several parts of it tell, and its status shows all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

__all__ = ["Troubles"]


class Troubles:
    """Puts the words of several parts together. Safe to use from any thread."""

    def __init__(self, report: Callable[[str | None], None]) -> None:
        """`report` gets all that is wrong, one part's after the other's; None: nothing is."""
        self._report = report
        self._lock = threading.Lock()
        self._told: dict[str, str] = {}

    def part(self, name: str) -> Callable[[str | None], None]:
        """Where the part `name` tells its own; None: nothing any more."""
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
