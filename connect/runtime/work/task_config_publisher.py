"""Publishes a connector's task configs.

The connector's worker asks the connector for task configs. If they differ from the committed ones,
the herder commits them: a standalone herder in memory, a herder of a group in the config topic or
by a request to the leader. Failures are retried with a growing backoff while the connector runs
here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from connect.clock import Clock
from connect.errors import ConnectError, TaskFailed
from connect.loop import Backoff
from connect.runtime.errors import LeaderRefused
from connect.runtime.tasks.configs import (
    enforces_tasks_max,
    kept_task_configs,
    tasks_max,
    too_many_tasks,
)
from connect.runtime.tasks.live_keys import differ_only_live, without_live
from connect.runtime.work.running_connectors import RunningConnectors
from connect.runtime.worker import Worker
from connect.runtime.worker_connector import TasksAnswer, WorkerConnector
from connect.storage.config_state import ClusterConfigState

__all__ = ["TaskConfigPublisher", "task_configs_changed"]

_log = logging.getLogger(__name__)

_BACKOFF_S, _BACKOFF_CAP_S = 0.25, 60.0
# The leader may not have read our session key yet, or we the leader's, so early failures are not
# logged as errors.
_KEY_GRACE_S = 60.0
_FORBIDDEN = 403


class Commits(Protocol):
    """The part of a herder that publishing uses, on the herder's thread."""

    @property
    def configs(self) -> ClusterConfigState: ...
    def commit_task_configs(
        self, connector: str, configs: Sequence[Mapping[str, str]]
    ) -> Future[None] | None:
        """Commit task configs, or ask the leader to; then the future completes when it has.

        Raises `ConnectError`.
        """

    def task_configs_answered(self, connector: str) -> None:
        """Called when the connector's task configs were committed, or failed and will be
        retried.
        """


class TaskConfigPublisher:
    """Publishes task configs on the herder's thread; only `wanted` is thread-safe.

    `later(seconds, command)` runs a command on that thread.
    """

    def __init__(
        self,
        worker: Worker,
        connectors: RunningConnectors,
        herder: Commits,
        later: Callable[[float, Callable[[], None]], None],
        clock: Clock,
    ) -> None:
        self._worker = worker
        self._connectors = connectors
        self._herder = herder
        self._later = later
        self._clock = clock
        self._asked: dict[str, WorkerConnector] = {}
        self._sent: dict[str, tuple[WorkerConnector, list[dict[str, str]]]] = {}
        self._answers: dict[str, tuple[WorkerConnector, list[dict[str, str]]]] = {}
        """The last task configs that each connector generated, in the stored form."""
        self._again: set[str] = set()
        self._waiting: dict[str, WorkerConnector] = {}
        """Hosts to ask again after their backoff."""
        self._backoffs: dict[str, tuple[WorkerConnector, Backoff, float]] = {}

    def wanted(self, connector: str) -> None:
        """Publish the task configs of a connector that has started or requests it."""
        self._later(0.0, lambda: self._ask(connector))

    def forget(self, connector: str) -> None:
        """Stop publishing for a connector that no longer runs here."""
        self._asked.pop(connector, None)
        self._sent.pop(connector, None)
        self._answers.pop(connector, None)
        self._backoffs.pop(connector, None)
        self._waiting.pop(connector, None)
        self._again.discard(connector)

    def compare(self) -> None:
        """Ask connectors again whose committed task configs differ from their last generated ones.

        A leader that died, or that wrote after losing its leadership, may have left others or none.
        """
        for connector, (host, kept) in list(self._answers.items()):
            if self._connectors.host_of(connector) is not host:
                del self._answers[connector]
            elif self._herder.configs.raw_task_configs(connector) != kept:
                self.wanted(connector)

    def _ask(self, connector: str) -> None:
        host = self._connectors.host_of(connector)
        if host is None:
            return
        if self._asked.get(connector) is host:
            # The answer in progress may predate the connector's newest change.
            self._again.add(connector)
            return
        self._again.discard(connector)
        limit = tasks_max(self._connectors.config_of(connector))
        self._asked[connector] = host

        def on_answer(done: Future[TasksAnswer]) -> None:
            self._later(0.0, lambda: self._take(connector, host, done))

        host.tasks(limit).add_done_callback(on_answer)

    def _take(
        self,
        connector: str,
        host: WorkerConnector,
        answer: Future[TasksAnswer],
    ) -> None:
        if self._connectors.host_of(connector) is not host:
            return
        try:
            task_class, generated = answer.result()
            if generated is not None and self._publish(connector, host, task_class, generated):
                return
        except TaskFailed as error:
            _log.error("%s", error)
            self._connectors.fail(connector, error)
        except Exception as error:  # noqa: BLE001 - a plugin's, or a write's; tried again
            self._retry(connector, host, error)
        self._done(connector, host)

    def _publish(
        self,
        connector: str,
        host: WorkerConnector,
        task_class: type,
        generated: Sequence[Mapping[str, str]],
    ) -> bool:
        """Publish generated task configs. Return whether a request to the leader is pending."""
        config = self._connectors.config_of(connector)
        _check_count(connector, len(generated), config)
        configs = self._herder.configs
        raw = configs.raw_connector_config(connector)
        if raw is None:
            return False
        live = self._worker.live_keys(config)
        kept = [
            without_live(each, live)
            for each in kept_task_configs(raw, self._worker.plugins.name_of(task_class), generated)
        ]
        self._answers[connector] = (host, kept)
        sent = self._sent.get(connector)
        # Right after a commit, our own view of the topic may be older.
        unread = sent is not None and sent[0] is host and sent[1] != kept
        if not unread and not task_configs_changed(connector, configs, kept, config, live):
            self._published(connector, host)
            return False
        _log.info("Connector %s: committing %d task configs", connector, len(kept))
        self._sent[connector] = (host, kept)
        asked = self._herder.commit_task_configs(connector, kept)
        if asked is None:
            self._published(connector, host)
            return False
        asked.add_done_callback(
            lambda done: self._later(0.0, lambda: self._answered(connector, host, done))
        )
        return True

    def _answered(self, connector: str, host: WorkerConnector, done: Future[None]) -> None:
        error = done.exception()
        if error is not None:
            self._retry(connector, host, error)
        elif self._connectors.host_of(connector) is host:
            self._published(connector, host)
        self._done(connector, host)

    def _published(self, connector: str, host: WorkerConnector) -> None:
        """Handle a commit of the connector's task configs."""
        self._backoffs.pop(connector, None)
        host.note_unpublished(None)

    def _done(self, connector: str, host: WorkerConnector) -> None:
        """Start the next publication of this connector, if one was requested meanwhile."""
        if self._asked.get(connector) is host:
            del self._asked[connector]
            self._herder.task_configs_answered(connector)
            if connector in self._again:
                self._ask(connector)

    def _retry(self, connector: str, host: WorkerConnector, error: BaseException) -> None:
        if self._connectors.host_of(connector) is not host or self._waiting.get(connector) is host:
            return
        known = self._backoffs.get(connector)
        if known is None or known[0] is not host:
            known = (host, Backoff(_BACKOFF_S, _BACKOFF_CAP_S), self._clock.monotonic())
            self._backoffs[connector] = known
        _, backoff, since = known
        wait = backoff.next()
        young = self._clock.monotonic() - since < _KEY_GRACE_S
        expired_key = isinstance(error, LeaderRefused) and error.status == _FORBIDDEN and young
        _log.log(
            logging.INFO if expired_key else logging.ERROR,
            "Cannot commit the task configs of connector %s; retrying in %.2f s: %s",
            connector,
            wait,
            str(error) or type(error).__name__,
            exc_info=None if isinstance(error, ConnectError) else error,
        )
        if backoff.failures > 1 and not expired_key:
            host.note_unpublished(
                f"Cannot commit the connector's task configs, so its tasks are not running: {error}"
                if not self._herder.configs.tasks(connector)
                else f"Cannot commit changed task configs of the connector: {error}"
            )
        self._waiting[connector] = host

        def again() -> None:
            if self._waiting.get(connector) is host:
                del self._waiting[connector]
                self._ask(connector)

        self._later(wait, again)


def task_configs_changed(
    connector: str,
    configs: ClusterConfigState,
    kept: Sequence[Mapping[str, str]],
    connector_config: Mapping[str, str],
    live: frozenset[str] = frozenset(),
) -> bool:
    """Return whether the committed task configs are out of date. Pure.

    They are if the generated configs differ, or if the connector's config has changed from the one
    they were made from in other keys than `live`.
    """
    tasks = configs.tasks(connector)
    if len(kept) != len(tasks):
        return True
    for task, config in zip(tasks, kept, strict=True):
        if configs.raw_task_config(task) != config:
            return True
    applied = configs.applied_connector_config(connector)
    return applied is None or not differ_only_live(applied, connector_config, live)


def _check_count(connector: str, count: int, config: Mapping[str, str]) -> None:
    text = too_many_tasks(connector, count, config)
    if text is None:
        return
    if not enforces_tasks_max(config):
        _log.warning("%s Fix the connector: only tasks.max.enforce=false allows it.", text)
        return
    raise TaskFailed(f"{text} Fix the connector, or set tasks.max.enforce=false.")
