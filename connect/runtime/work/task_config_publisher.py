"""Publishes a connector's task configs.

The connector's worker asks it for them; if they differ from what is committed, the herder commits
them: a standalone one in memory, one of a group in the config topic, or by asking the leader. What
fails is tried again, with growing waits, for as long as the connector runs here.
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
from connect.runtime.work.running_work import RunningWork
from connect.runtime.worker import Worker
from connect.runtime.worker_connector import TasksAnswer, WorkerConnector
from connect.storage.config_state import ClusterConfigState

__all__ = ["TaskConfigPublisher", "task_configs_changed"]

_log = logging.getLogger(__name__)

_BACKOFF_S, _BACKOFF_CAP_S = 0.25, 60.0
# A leader may not have read our key yet, nor we its; it is not worth an error until then.
_KEY_GRACE_S = 60.0
_FORBIDDEN = 403


class Commits(Protocol):
    """A herder, as far as publishing uses it, on the herder's thread."""

    @property
    def configs(self) -> ClusterConfigState: ...
    def commit_task_configs(
        self, connector: str, configs: Sequence[Mapping[str, str]]
    ) -> Future[None] | None:
        """Commit them, or have the leader do it: then the future tells when it has. Raises
        `ConnectError`."""

    def task_configs_answered(self, connector: str) -> None:
        """The connector was asked, and what it said is committed, or failed and is tried again."""


class TaskConfigPublisher:
    """All on the herder's thread but `wanted`, which is for any. `later(seconds, command)` runs a
    command on that thread."""

    def __init__(
        self,
        worker: Worker,
        work: RunningWork,
        herder: Commits,
        later: Callable[[float, Callable[[], None]], None],
        clock: Clock,
    ) -> None:
        self._worker = worker
        self._work = work
        self._herder = herder
        self._later = later
        self._clock = clock
        self._asked: dict[str, WorkerConnector] = {}
        self._sent: dict[str, tuple[WorkerConnector, list[dict[str, str]]]] = {}
        self._answers: dict[str, tuple[WorkerConnector, list[dict[str, str]]]] = {}
        """The last task configs of each connector, in the form that is stored."""
        self._again: set[str] = set()
        self._waiting: dict[str, WorkerConnector] = {}
        """Hosts that are asked again when their backoff is over."""
        self._backoffs: dict[str, tuple[WorkerConnector, Backoff, float]] = {}

    def wanted(self, connector: str) -> None:
        """The connector has started, or says that its tasks have changed."""
        self._later(0.0, lambda: self._ask(connector))

    def forget(self, connector: str) -> None:
        """This worker no longer runs the connector."""
        self._asked.pop(connector, None)
        self._sent.pop(connector, None)
        self._answers.pop(connector, None)
        self._backoffs.pop(connector, None)
        self._waiting.pop(connector, None)
        self._again.discard(connector)

    def compare(self) -> None:
        """Ask connectors here again whose committed tasks are not those that they said: a leader
        that died, or wrote when it led no more, may have left others, or none."""
        for connector, (host, kept) in list(self._answers.items()):
            if self._work.host_of(connector) is not host:
                del self._answers[connector]
            elif self._herder.configs.raw_task_configs(connector) != kept:
                self.wanted(connector)

    def _ask(self, connector: str) -> None:
        host = self._work.host_of(connector)
        if host is None:
            return
        if self._asked.get(connector) is host:
            # The answer under way may not know what the connector has found since.
            self._again.add(connector)
            return
        self._again.discard(connector)
        limit = tasks_max(self._work.config_of(connector))
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
        if self._work.host_of(connector) is not host:
            return
        try:
            task_class, generated = answer.result()
            if generated is not None and self._publish(connector, host, task_class, generated):
                return
        except TaskFailed as error:
            _log.error("%s", error)
            self._work.fail_connector(connector, error)
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
        """Whether the leader was asked, and its answer is to come."""
        config = self._work.config_of(connector)
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
        # Right after a commit our own view of the topic may still be from before it.
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
        elif self._work.host_of(connector) is host:
            self._published(connector, host)
        self._done(connector, host)

    def _published(self, connector: str, host: WorkerConnector) -> None:
        """The connector's task configs are committed."""
        self._backoffs.pop(connector, None)
        host.note_unpublished(None)

    def _done(self, connector: str, host: WorkerConnector) -> None:
        """No publication of this connector is running; start another if one was requested
        meanwhile."""
        if self._asked.get(connector) is host:
            del self._asked[connector]
            self._herder.task_configs_answered(connector)
            if connector in self._again:
                self._ask(connector)

    def _retry(self, connector: str, host: WorkerConnector, error: BaseException) -> None:
        if self._work.host_of(connector) is not host or self._waiting.get(connector) is host:
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
    """Whether these task configs differ from the committed ones, or the connector's config from
    the one that those were made from, other than in `live` keys. Pure."""
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
        _log.warning("%s tasks.max.enforce=false allows it.", text)
        return
    raise TaskFailed(f"{text} Fix the connector, or set tasks.max.enforce=false.")
