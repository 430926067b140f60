"""Connectors without threads, and the worker that makes them and their tasks.

A connector's config says what it does: `tasks` it has, `mark` (which request wrote it), `kind` of
tasks ("transfer" or "record"), `start` and `stop` ("slow", "fails"). Everything that moves says so
to the `Ledger`, which the oracle reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.states import InstanceId, State, StatusBook
from connect.runtime.worker import Worker
from tests.simulation.workers.engine import Process
from tests.simulation.workers.plugins import SimRecord, SimTransfer, plugins
from tests.simulation.workers.tasks import SOON_S, Moves, SimTaskHost
from tests.support.workers.memory_offset_store import MemoryOffsetStore

if TYPE_CHECKING:
    from connect.runtime.work.task_run import TaskRun
    from tests.simulation.workers.ledger import Ledger

__all__ = ["SimWorker", "SimWorkerConnector"]


class SimWorkerConnector:
    """Stands for `WorkerConnector`."""

    def __init__(
        self,
        process: Process,
        ledger: Ledger,
        name: str,
        statuses: StatusBook,
        request_reconfiguration: Callable[[], None],
    ) -> None:
        self._process = process
        self._engine = process.engine
        self._ledger = ledger
        self.instance = InstanceId(name)
        self._statuses = statuses
        self._moves = Moves(self.instance, statuses)
        self.reconfigure = request_reconfiguration
        self.config: Mapping[str, str] = {}
        self._unpublished: str | None = None
        self._started: Future[None] = Future()
        self._stopping = False
        self._decided = False
        self.ended = False

    @property
    def running(self) -> bool:
        return not self._stopping and self._started.done() and self._started.exception() is None

    def start(self, config: Mapping[str, str]) -> Future[None]:
        self.config = config
        slow = config.get("start") == "slow"
        longest = 4.0 if self._ledger.healed else self._engine.random.choice((4.0, 20.0, 75.0))
        delay = self._engine.random.uniform(1.0, longest) if slow else SOON_S
        self._engine.at(delay, self._begin, self._process)
        return self._started

    def _begin(self) -> None:
        if self._decided:
            return
        self._decided = True
        if self._stopping:
            self._started.set_exception(ConnectError("stopped before it had started"))
        elif self._ledger.fails(self.config, "start"):
            self._fail(ConnectError("the connector does not start"))
        else:
            self._ledger.begins(self, self._process, self.config)
            self._moves.move(State.RUNNING)
            self._statuses.annotate(self.instance, self._unpublished)
            self._started.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._moves.move(State.FAILED, str(error))
        self._started.set_exception(error)

    def give_up_start(self, timeout: float) -> None:
        if not self._decided and not self._stopping:
            self._decided = True
            self._fail(ConnectError(f"did not start within {timeout:g} s"))

    def tasks(self, max_tasks: int) -> Future[Any]:
        answer: Future[Any] = Future()

        def tell() -> None:
            kind = SimRecord if self.config.get("kind") == "record" else SimTransfer
            if self._ledger.fails(self.config, "answers") and self._engine.random.random() < 0.5:
                answer.set_exception(ConnectError("the source does not answer"))
                return
            answer.set_result(
                (kind, self._ledger.task_configs(self.instance.connector, self.config))
            )

        self._engine.at(SOON_S, tell, self._process)
        return answer

    def note_unpublished(self, reason: str | None) -> None:
        if reason != self._unpublished:
            self._unpublished = reason
            self._statuses.annotate(self.instance, reason)

    def request_stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        slow = self.config.get("stop") == "slow"
        delay = self._engine.random.uniform(0.5, 9.0) if slow else SOON_S
        self._engine.at(delay, self._end, self._process)

    def _end(self) -> None:
        self.ended = True
        self._ledger.ends(self)

    def join(self, deadline: Deadline) -> bool:
        until = self._engine.now + deadline.remaining()
        ended = self._engine.block(self._process, until, lambda: self.ended or not self._stopping)
        if not ended:
            self._ledger.abandoned(self)
        return ended


class SimWorker(Worker):
    """Makes hosts without threads; has no clients."""

    def __init__(
        self, process: Process, ledger: Ledger, config: WorkerConfig, *, exactly_once: bool
    ) -> None:
        super().__init__(
            config,
            plugins(),
            MetricRegistry(),
            process.clock,
            worker_id=process.name,
            offset_store=MemoryOffsetStore(),
            exactly_once=exactly_once,
        )
        self._process = process
        self._ledger = ledger
        self.find_run: Callable[[InstanceId], TaskRun | None] = lambda _: None
        self.submit: Callable[[Callable[[], Any]], Future[Any]]

    def start(self, deadline: Deadline) -> None:
        """There is no offset store."""

    def stop(self, deadline: Deadline) -> None:
        if self._fence is not None:
            self._fence.stop(deadline)

    def make_connector(  # type: ignore[override]
        self,
        name: str,
        config: Mapping[str, str],
        request_reconfiguration: Callable[[], None],
        committed: Sequence[Mapping[str, str]] = (),
    ) -> SimWorkerConnector:
        self.plugins.connector(config["connector.class"])
        return SimWorkerConnector(
            self._process, self._ledger, name, self.statuses, request_reconfiguration
        )

    def make_task(  # type: ignore[override]
        self,
        instance: InstanceId,
        task_class: type,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        *,
        paused: bool,
        exactly_once: ExactlyOncePlan | None = None,
    ) -> SimTaskHost:
        return SimTaskHost(
            self._process,
            self._ledger,
            instance,
            task_class,
            task_config,
            self.statuses,
            paused=paused,
            plan=exactly_once,
            find_run=self.find_run,
            submit=self.submit,
        )

    def fence_zombies(
        self, connector: str, tasks: int, connector_config: Mapping[str, str]
    ) -> Future[None]:
        done: Future[None] = Future()
        self._ledger.fence(self._process, connector, tasks, done)
        return done
