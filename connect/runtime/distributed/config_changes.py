"""Collects changes of the config topic until the herder's thread handles them.

The config store's reading thread adds changes; the herder's thread takes them. This module decides
which changes need a rebalance; the herder acts on them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from connect.errors import ConnectError
from connect.storage.config_records import RestartRequest, SessionKey
from connect.storage.instance_id import InstanceId

__all__ = ["ChangeSet", "PendingChanges"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changes since the herder's thread last took them."""

    rebalance: bool = False
    """Connectors or tasks were added or removed, so the group must rebalance."""
    connectors: frozenset[str] = frozenset()
    """Connectors whose config was written: changed ones, and new ones, which may run by now."""
    targets: frozenset[str] = frozenset()
    """Connectors whose target state has changed."""
    tasks: frozenset[InstanceId] = frozenset()
    """Tasks whose configs were committed."""


@dataclass
class _Noted:
    rebalance: bool = False
    connectors: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    tasks: set[InstanceId] = field(default_factory=set)


class PendingChanges:
    """The config store's listener. Thread-safe.

    `known` returns whether the group has assigned a connector. An unassigned connector needs a
    rebalance; a changed one is restarted by the worker that runs it. `apply_level` sets a logger's
    level.
    """

    def __init__(
        self,
        known: Callable[[str], bool],
        wake: Callable[[], None],
        apply_level: Callable[[str, str], object],
    ) -> None:
        self._known = known
        self._wake = wake
        self._apply_level = apply_level
        self._lock = threading.Lock()
        self._noted = _Noted()
        self._restarts: dict[str, RestartRequest] = {}
        self._session_key: SessionKey | None = None

    @property
    def rebalance_needed(self) -> bool:
        with self._lock:
            return self._noted.rebalance

    @property
    def session_key(self) -> SessionKey | None:
        """The newest session key that was read or passed to `begin_with`."""
        with self._lock:
            return self._session_key

    def take(self) -> ChangeSet:
        """Return and clear all changes collected so far."""
        with self._lock:
            noted, self._noted = self._noted, _Noted()
        return ChangeSet(
            noted.rebalance,
            frozenset(noted.connectors),
            frozenset(noted.targets),
            frozenset(noted.tasks),
        )

    def take_restarts(self) -> list[RestartRequest]:
        """Return and clear the restart requests, one for each connector, sorted by connector."""
        with self._lock:
            restarts, self._restarts = self._restarts, {}
        return [restarts[connector] for connector in sorted(restarts)]

    def begin_with(self, key: SessionKey | None) -> None:
        """Set the session key of the initial state, unless a newer one was read."""
        with self._lock:
            if self._session_key is None:
                self._session_key = key

    # The listener's methods, called on the store's reading thread.

    def on_connector_config_update(self, connector: str) -> None:
        with self._lock:
            # One that is not known yet may have begun with an earlier config when this is taken.
            self._noted.connectors.add(connector)
            if not self._known(connector):
                self._noted.rebalance = True
        self._wake()

    def on_connector_config_remove(self, connector: str) -> None:
        with self._lock:
            self._noted.rebalance = True
        self._wake()

    def on_task_config_update(self, tasks: Sequence[InstanceId]) -> None:
        with self._lock:
            self._noted.rebalance = True
            self._noted.tasks.update(tasks)
        self._wake()

    def on_connector_target_state_change(self, connector: str) -> None:
        with self._lock:
            self._noted.targets.add(connector)
        self._wake()

    def on_session_key_update(self, key: SessionKey) -> None:
        with self._lock:
            self._session_key = key
        self._wake()

    def on_restart_request(self, request: RestartRequest) -> None:
        """Keep the request that restarts most, if there are several for one connector."""
        with self._lock:
            waiting = self._restarts.get(request.connector)
            if waiting is None or request.impact > waiting.impact:
                self._restarts[request.connector] = request
        self._wake()

    def on_logger_level(self, namespace: str, level: str) -> None:
        try:
            self._apply_level(namespace, level)
        except ConnectError as error:
            # Any worker, also a Java one, may have written a level that is unknown here.
            _log.warning("Cannot change the level of logger %s: %s", namespace, error)
