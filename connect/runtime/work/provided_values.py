"""Values of config providers in the configs of connectors whose tasks run here.

A connector's worker restarts it when values expire. It cannot know with which values the tasks were
started, here or on other workers. So each worker looks for itself whether those of its tasks have
changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from connect.config.providers import has_reference
from connect.runtime.states import InstanceId
from connect.runtime.work.task_reconfiguration import RunningTask
from connect.runtime.worker import Worker
from connect.storage.config_state import ClusterConfigState

__all__ = ["ProvidedValues"]

_log = logging.getLogger(__name__)

_AGAIN_S = 10.0


class ProvidedValues:
    """Restarts tasks whose values have changed. Used on the herder's thread."""

    def __init__(
        self,
        worker: Worker,
        later: Callable[[float, Callable[[], None]], None],
        tasks: Mapping[InstanceId, RunningTask],
        configs: Callable[[], ClusterConfigState],
        restart: Callable[[list[InstanceId]], None],
    ) -> None:
        """`later(seconds, command)` runs a command on the herder's thread. `tasks` run here."""
        self._worker = worker
        self._later = later
        self._tasks = tasks
        self._configs = configs
        self._restart = restart
        self._watched: set[str] = set()

    def watch(self, connector: str, ttl_s: float | None) -> None:
        """Look once for all tasks of the connector when its values expire; None: never."""
        if ttl_s is not None and connector not in self._watched:
            self._watched.add(connector)
            self._later(ttl_s, lambda: self._look(connector))

    def _look(self, connector: str) -> None:
        self._watched.discard(connector)
        here = sorted(task for task in self._tasks if task.connector == connector)
        raw = self._configs().raw_connector_config(connector)
        if not here or raw is None:
            return
        try:
            now = self._worker.resolved_for_now(raw)
        except Exception as error:  # noqa: BLE001 - a provider's; the tasks go on meanwhile
            _log.warning(
                "Asking for the values of connector %s again failed; its tasks go on, and nothing "
                "has to be done: it is tried again: %s",
                connector,
                error,
            )
            self.watch(connector, _AGAIN_S)
            return
        provided = [key for key, value in raw.items() if has_reference(value)]

        def is_old(task: InstanceId) -> bool:
            known = self._tasks[task].connector_config
            return any(known.get(key) != now.values.get(key) for key in provided)

        old = [task for task in here if is_old(task)]
        if old:
            _log.info("Restarting %d tasks of connector %s with new values", len(old), connector)
            self._restart(old)
        self.watch(connector, now.ttl_s)
