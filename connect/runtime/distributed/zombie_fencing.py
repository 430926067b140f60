"""Zombie fencing as the leader (KIP-618): fence earlier tasks before new ones write exactly once.

A record in the config topic keeps the number of fenced tasks. Runs on the leader's herder thread,
except for the requests to the brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from connect.errors import ConnectError, RetriableError
from connect.futures import settle
from connect.runtime.distributed.group_configs import GroupConfigs
from connect.runtime.errors import BadRequest, NotFound
from connect.storage.config_state import ClusterConfigState

__all__ = ["FencingConflict", "ZombieFencing", "fencing_needed", "needs_no_fencing"]

_log = logging.getLogger(__name__)

FenceOut = Callable[[str, int, Mapping[str, str]], Future[None]]
"""Fences (connector, tasks, its resolved config). Done when the producers of tasks 0 to tasks - 1
can no longer write.
"""


class FencingConflict(ConnectError):
    """The connector's task configs changed while its earlier tasks were being fenced."""

    retriable = True
    http_status = 409


def fencing_needed(configs: ClusterConfigState, connector: str) -> int | None:
    """Return how many tasks must be fenced before the connector's current tasks may write. Pure.

    0 means that none must be fenced, but the current number must be recorded. None means that
    nothing is to be done.
    """
    if not configs.pending_fencing(connector):
        return None
    fenced = configs.task_count_record(connector)
    if fenced is None or (fenced == 1 and configs.task_count(connector) == 1):
        # A single task fences its predecessor by itself, because it has the same transactional id.
        return 0
    return fenced


def needs_no_fencing(configs: ClusterConfigState, connector: str) -> bool:
    """Return whether a running task may continue with changed configs. Pure.

    That is so if it is the connector's only task, and was at the last fencing: its successor has
    the same transactional id and so fences it.
    """
    return configs.task_count_record(connector) == configs.task_count(connector) == 1


class ZombieFencing:
    """Runs fencing rounds on the leader's herder thread."""

    def __init__(
        self,
        configs: GroupConfigs,
        record_task_count: Callable[[str, int], None],
        post: Callable[[float, Callable[[], None]], None],
        fence_out: FenceOut,
        resolved: Callable[[Mapping[str, str]], dict[str, str]],
        is_source: Callable[[Mapping[str, str]], bool],
    ) -> None:
        """Create the fencing.

        `record_task_count(connector, tasks)` writes as the leader. `post(seconds, command)` runs a
        command on the herder's thread. `is_source(config)` returns whether a connector is a source.
        """
        self._configs = configs
        self._record_task_count = record_task_count
        self._post = post
        self._fence_out = fence_out
        self._resolved = resolved
        self._is_source = is_source
        self._rounds: dict[str, Future[None]] = {}
        self._fencing: dict[str, Future[None]] = {}
        """The last request to the brokers, by connector; it cannot be cancelled."""

    def request(self, connector: str) -> Future[None]:
        """Fence earlier tasks. Done when the connector's current tasks may start.

        Several requests share a round. Raises `NotFound` and `BadRequest`; the future fails with
        `FencingConflict`, or with the error of the brokers.
        """
        if not self._configs.refresh():
            raise RetriableError(
                "Failed to read to end of config topic before fencing out earlier tasks"
            )
        configs = self._configs.current
        raw = configs.raw_connector_config(connector)
        if raw is None:
            raise NotFound(f"Connector {connector} not found")
        config = self._resolved(raw)
        if not self._is_source(config):
            raise BadRequest(f"Connector {connector} is not a source connector")
        running = self._rounds.get(connector)
        if running is not None:
            return running
        done: Future[None] = Future()
        earlier = self._fencing.get(connector)
        if earlier is not None and not earlier.done():
            # An abandoned round is still running. It would fence tasks that start before it ends.
            self._rounds[connector] = done
            earlier.add_done_callback(
                lambda _: self._post(0.0, lambda: self._ask_again(connector, done))
            )
            return done
        tasks = fencing_needed(configs, connector)
        if tasks is None:
            done.set_result(None)
        elif tasks == 0:
            self._write_down(connector, configs, done)
        else:
            self._begin(connector, tasks, config, configs.task_config_generation(connector), done)
        return done

    def _ask_again(self, connector: str, done: Future[None]) -> None:
        """Send the next request to the brokers, after the last one ended."""
        if self._rounds.get(connector) is not done:
            return
        del self._rounds[connector]
        try:
            again = self.request(connector)
        except ConnectError as error:
            _fail(done, error)
            return

        def answered(answer: Future[None]) -> None:
            if not done.done():
                settle(done, answer.exception())

        again.add_done_callback(answered)

    def give_up(self, connectors: Collection[str]) -> None:
        """End the rounds of these connectors, because their tasks have changed."""
        for connector in sorted(self._rounds.keys() & set(connectors)):
            _fail(self._rounds.pop(connector), _conflict(connector))

    def close(self) -> None:
        """End all rounds, because the worker is shutting down."""
        while self._rounds:
            _fail(self._rounds.popitem()[1], ConnectError("Worker is shutting down"))

    def _begin(
        self,
        connector: str,
        tasks: int,
        config: Mapping[str, str],
        generation: int | None,
        done: Future[None],
    ) -> None:
        _log.info("Fencing out up to %d earlier tasks of connector %s", tasks, connector)
        self._rounds[connector] = done

        def end(outcome: Future[None]) -> None:
            if self._fencing.get(connector) is outcome:
                del self._fencing[connector]
            self._end(connector, generation, outcome.exception(), done)

        def fenced(outcome: Future[None]) -> None:
            self._post(0.0, lambda: end(outcome))

        fencing = self._fence_out(connector, tasks, config)
        self._fencing[connector] = fencing
        fencing.add_done_callback(fenced)

    def _end(
        self,
        connector: str,
        generation: int | None,
        error: BaseException | None,
        done: Future[None],
    ) -> None:
        if self._rounds.get(connector) is not done:
            return
        del self._rounds[connector]
        if error is not None:
            _fail(done, error)
            return
        if not self._configs.refresh():
            _fail(
                done,
                RetriableError("Failed to read to end of config topic after fencing earlier tasks"),
            )
            return
        configs = self._configs.current
        if configs.task_config_generation(connector) != generation:
            _fail(done, _conflict(connector))
            return
        self._write_down(connector, configs, done)

    def _write_down(self, connector: str, configs: ClusterConfigState, done: Future[None]) -> None:
        count = configs.task_count(connector)
        try:
            self._record_task_count(connector, count)
        except ConnectError as error:
            _fail(done, error)
        else:
            done.set_result(None)


def _conflict(connector: str) -> FencingConflict:
    return FencingConflict(
        "Fencing failed because new task configurations were generated for the connector"
        f" {connector}"
    )


def _fail(done: Future[None], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
