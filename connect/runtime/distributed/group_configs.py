"""The configs of the config topic that the herder's thread acts on."""

from __future__ import annotations

import logging

from connect.clock import Clock, Deadline
from connect.errors import ConnectError
from connect.runtime.stages import Stages
from connect.storage.config_state import ClusterConfigState
from connect.storage.config_store import ConfigStore

__all__ = ["GroupConfigs"]

_log = logging.getLogger(__name__)


class GroupConfigs:
    """The configs that this worker acts on, for the herder's thread.

    The store's own thread may have read more. `adopt` and `refresh` take that over.
    """

    def __init__(
        self, store: ConfigStore, stages: Stages, sync_timeout_s: float, clock: Clock
    ) -> None:
        self._store = store
        self._stages = stages
        self._sync_timeout_s = sync_timeout_s
        self._clock = clock
        self.current: ClusterConfigState = store.snapshot()

    def adopt(self) -> None:
        """Act on all that the store has read so far."""
        self.current = self._store.snapshot()

    def refresh(self) -> bool:
        """Read the config topic to its end within worker.sync.timeout.ms. Return whether that
        succeeded.

        Raises `ConnectError` for fatal errors, after which this worker cannot continue.
        """
        try:
            with self._stages.during("reading to the end of the config topic"):
                self._store.refresh(Deadline(self._sync_timeout_s, self._clock))
        except ConnectError as error:
            if not error.retriable:
                raise
            _log.warning("Cannot read the config topic to its end: %s", error)
            return False
        self.adopt()
        return True
