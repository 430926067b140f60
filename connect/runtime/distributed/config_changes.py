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
    """The changes since the herder's thread last took them."""

    rebalance: bool = False
    """The connectors or their tasks are others: the group has to assign anew."""
    connectors: frozenset[str] = frozenset()
    """Connectors whose configs have changed."""
    targets: frozenset[str] = frozenset()
    """Connectors whose target states have changed."""
    tasks: frozenset[InstanceId] = frozenset()
    """Tasks whose configs were committed."""


@dataclass
class _Noted:
    rebalance: bool = False
    connectors: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    tasks: set[InstanceId] = field(default_factory=set)


class PendingChanges:
    """The config store's listener. Safe to use from any thread.

    `known` says whether the group has assigned a connector: one that it has not needs a rebalance,
    a changed one its owner restarts. `apply_level` sets a logger's level.
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
        """The newest key that was read, or that `begin_with` told of."""
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
        """The requests to restart connectors, one for each, by connector."""
        with self._lock:
            restarts, self._restarts = self._restarts, {}
        return [restarts[connector] for connector in sorted(restarts)]

    def begin_with(self, key: SessionKey | None) -> None:
        """The session key that was there at the start; one that came since is newer."""
        with self._lock:
            if self._session_key is None:
                self._session_key = key

    # The listener, on the store's reading thread.

    def on_connector_config_update(self, connector: str) -> None:
        with self._lock:
            if self._known(connector):
                self._noted.connectors.add(connector)
            else:
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
        """Of several requests for one connector, the one that restarts most is kept."""
        with self._lock:
            waiting = self._restarts.get(request.connector)
            if waiting is None or request.impact > waiting.impact:
                self._restarts[request.connector] = request
        self._wake()

    def on_logger_level(self, namespace: str, level: str) -> None:
        try:
            self._apply_level(namespace, level)
        except ConnectError as error:
            # Any worker, also Java's, may have written what is no level here.
            _log.warning("Cannot change the level of logger %s: %s", namespace, error)
