"""The flows as the dashboard sees them, and what was found when their workers were last asked.

Asking all workers of a flow for 10,000 partitions takes a while. `Board` does it at most once in
`FRESH_S` for each flow, however many pages ask, and never twice at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.types import SecretStr
from connect.runtime.connector_status import ConnectorStatus
from connectors.mirror.config.history_url import flow_history_url
from connectors.mirror.config.source import SOURCE_CONFIG_DEF

__all__ = ["FRESH_S", "Board", "MirrorView", "OnceInAWhile", "Seen"]

FRESH_S = 2.0
"""How old an answer may be. Pages ask every few seconds."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MirrorView:
    """One flow of this listener.

    `statuses` asks all workers for the connectors of the flow: from name to status and class.
    `properties` are the resolved ones of the source connector, with secrets; empty if a config
    provider fails. `plain`: then those that refer to no provider, which say where the history is.
    """

    source: str
    target: str
    statuses: Callable[[], Sequence[tuple[str, ConnectorStatus]]]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    plain: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def _known(self) -> Mapping[str, str]:
        return self.properties or self.plain

    @property
    def history(self) -> SecretStr:
        given = self._known.get("mirror.history.url")
        return flow_history_url(None if given is None else SecretStr(given), self._known)

    @property
    def retention_days(self) -> int:
        """How long the flow's history is kept. Raises `ConfigError`."""
        days = SOURCE_CONFIG_DEF.keys["mirror.history.retention.days"].parse(self._known)
        assert isinstance(days, int)
        return days


@dataclass(frozen=True, slots=True)
class Seen:
    """The connectors of a flow, with their classes, and when they were asked (ms since 1970)."""

    at_ms: int
    connectors: Sequence[tuple[str, ConnectorStatus]]


class OnceInAWhile(Generic[T]):
    """Computes a value at most once in `fresh_s`; other threads wait for the one that computes.
    Thread-safe. An error is raised to all that asked meanwhile, and is not kept."""

    def __init__(self, compute: Callable[[], T], fresh_s: float, clock: Clock = SYSTEM_CLOCK):
        self._compute = compute
        self._fresh_s = fresh_s
        self._clock = clock
        self._lock = threading.Lock()
        self._found: tuple[float, T] | None = None

    def get(self, compute: Callable[[], T] | None = None) -> T:
        with self._lock:
            if self._found is not None:
                at, value = self._found
                if self._clock.monotonic() - at < self._fresh_s:
                    return value
            value = (compute or self._compute)()
            self._found = (self._clock.monotonic(), value)
            return value


class Board:
    """The flows and their last answers. Thread-safe."""

    def __init__(
        self, views: Callable[[], Mapping[str, MirrorView]], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """`views` returns the flows by name; it reads what this process knows, and is quick."""
        self.clock = clock
        self.views = views
        self._lock = threading.Lock()
        self._seen: dict[str, OnceInAWhile[Seen]] = {}
        self._others: dict[tuple[str, str], OnceInAWhile[object]] = {}

    def seen(self, view: MirrorView) -> Seen:
        """Return the connectors of a flow as its workers have answered lately."""

        def ask() -> Seen:
            return Seen(self.clock.now_ms(), view.statuses())

        with self._lock:
            once = self._seen.setdefault(view.name, OnceInAWhile(ask, FRESH_S, self.clock))
        return once.get(ask)

    def once(self, key: tuple[str, str], fresh_s: float, compute: Callable[[], T]) -> T:
        """Return what `compute` returned for this key at most `fresh_s` ago."""
        with self._lock:
            once = self._others.setdefault(key, OnceInAWhile(compute, fresh_s, self.clock))
        return once.get(compute)  # type: ignore[return-value]
