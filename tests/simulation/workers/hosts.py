"""Connectors and tasks without threads, and the worker that makes them.

A connector's config says what it does: `tasks` it has, `mark` (which request wrote it), `kind` of
tasks ("transfer" or "record"), `start` and `stop` ("slow", "fails"). Everything that moves says so
to the `Ledger`, which the oracle reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from connect.clock import Deadline
from connect.config.definition import ConfigDef
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.plugin import (
    Connector,
    PartitionHealth,
    SourceTask,
    StoredOffset,
    TransferTask,
)
from connect.runtime.exactly_once import ExactlyOncePlan
from connect.runtime.plugins import PluginRegistry
from connect.runtime.states import InstanceId, InvalidTransition, State, StatusBook
from connect.runtime.task import WorkerTaskContext
from connect.runtime.transfer_task import WorkerTransferTask
from connect.runtime.worker import Worker
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import MemoryOffsetStore
from connect.storage.offset_writer import OffsetWriter
from tests.simulation.workers.engine import Process

if TYPE_CHECKING:
    from connect.runtime.distributed.exactly_once import TaskRun
    from tests.simulation.workers.ledger import Ledger

__all__ = ["SimConnectorHost", "SimSource", "SimTaskHost", "SimWorker", "plugins"]

_SOON_S = 0.01


class SimSource(Connector):
    """The plugin that configs name; hosts do its work."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    @classmethod
    def live_keys(cls) -> frozenset[str]:
        return frozenset({"rate"})

    def start(self, config: Mapping[str, str]) -> None:
        """Hosts do it."""

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return SimTransfer

    @classmethod
    def task_class_for(cls, config: Mapping[str, str]) -> type | None:
        return SimRecord if config.get("kind") == "record" else SimTransfer

    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        return []

    def stop(self) -> None:
        """Hosts do it."""


class Gapped(TransferTask):
    """A transfer task whose step has just failed, with records after the gap still to be copied.
    The step that failed was its last."""

    def __init__(self) -> None:
        self.acknowledged = 10
        self.steps = 0
        self._gathering: list[tuple[Future[list[StoredOffset]], int]] = []

    def start(self, config: Mapping[str, str]) -> None:
        """Nothing to open."""

    def step(self, timeout: float) -> None:
        self.steps += 1
        self.acknowledged += 10
        self.deliver()

    def wake(self) -> None:
        """No step waits."""

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        self._gathering.append((Future(), self.acknowledged))
        return self._gathering[-1][0]

    def deliver(self) -> None:
        for future, acknowledged in self._gathering:
            if not future.done():
                future.set_result([({"lane": 0}, {"offset": acknowledged})])

    def committed(self) -> None:
        """Nothing depends on it."""

    def pause(self) -> None:
        """Nothing moves."""

    def resume(self) -> None:
        """Nothing moves."""

    def drain(self, deadline: Deadline) -> None:
        """Nothing is under way."""

    def stop(self) -> None:
        """Nothing is open."""

    def health(self) -> list[PartitionHealth]:
        return []


class SimTransfer(TransferTask):
    """Can stand still; takes more lanes while it runs."""

    @classmethod
    def only_adds(cls, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        return int(before.get("lanes", "0")) <= int(after.get("lanes", "0")) and {
            **before,
            "lanes": "",
            "round": "",
        } == {**after, "lanes": "", "round": ""}


class SimRecord(SourceTask):
    """Cannot stand still."""


_REGISTRY: list[PluginRegistry] = []


def plugins() -> PluginRegistry:
    """The same for all runs: it never changes."""
    if not _REGISTRY:
        registry = PluginRegistry(discover=False)
        for plugin in (SimSource, SimTransfer, SimRecord):
            registry.register(plugin)
        _REGISTRY.append(registry)
    return _REGISTRY[0]


class _Moves:
    """Statuses of one instance, as its host moves them."""

    def __init__(self, instance: InstanceId, statuses: StatusBook) -> None:
        self.instance = instance
        self._statuses = statuses

    def move(self, state: State, trace: str | None = None) -> None:
        try:
            self._statuses.move(self.instance, state, trace)
        except InvalidTransition:
            """The herder was faster, as with real hosts."""


class SimConnectorHost:
    """Stands for `ConnectorHost`."""

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
        self._moves = _Moves(self.instance, statuses)
        self.reconfigure = request_reconfiguration
        self.config: Mapping[str, str] = {}
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
        delay = self._engine.random.uniform(1.0, longest) if slow else _SOON_S
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

        self._engine.at(_SOON_S, tell, self._process)
        return answer

    def request_stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        slow = self.config.get("stop") == "slow"
        delay = self._engine.random.uniform(0.5, 9.0) if slow else _SOON_S
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


class SimTaskHost:
    """Stands for `TaskHost`. `find_run`: the run that the herder gave it, under exactly-once."""

    def __init__(
        self,
        process: Process,
        ledger: Ledger,
        instance: InstanceId,
        task_class: type,
        config: Mapping[str, str],
        statuses: StatusBook,
        *,
        paused: bool,
        plan: ExactlyOncePlan | None,
        find_run: Callable[[InstanceId], TaskRun | None],
        submit: Callable[[Callable[[], Any]], Future[Any]],
    ) -> None:
        self._process = process
        self._engine = process.engine
        self._ledger = ledger
        self.instance = instance
        self.task_class = task_class
        self.config: Mapping[str, str] = dict(config)
        self._moves = _Moves(instance, statuses)
        self._paused = paused
        self.plan = plan
        self._find_run = find_run
        self._submit = submit
        self._tries = 0
        self.epoch = -1
        self.claimed_in = 0
        self.started = self.begun = self.ended = self.failed = False
        self.stopping = False
        self.still = False
        """Frozen by its herder."""
        self.disowned = self._abandoned = False

    @property
    def alive(self) -> bool:
        return self.started and not self.ended and not self.failed

    @property
    def moving(self) -> bool:
        """Whether it may copy and commit now."""
        return self.begun and not (self.ended or self.failed or self.still)

    def start(self) -> None:
        self.started = True
        slow = self.config.get("start") == "slow"
        delay = self._engine.random.uniform(0.1, 8.0) if slow else _SOON_S
        self._engine.at(delay, self._start, self._process)

    def _start(self) -> None:
        if self.stopping:
            self._end()
        elif self._ledger.fails(self.config, "start"):
            self._fail("the task does not start")
        elif self.plan is None:
            self._begin()
        else:
            self._ask(self._find_run(self.instance))

    # Exactly once: as the task's thread goes through the checks of its plan.

    def _ask(self, run: TaskRun | None) -> None:
        if run is None or self._given_up(run):
            return

        def answered(asked: Future[Future[None]]) -> None:
            error = asked.exception()
            if error is not None:
                self._again(run, error, lambda: self._ask(run))
            else:
                asked.result().add_done_callback(fenced)

        def fenced(done: Future[None]) -> None:
            error = done.exception()
            if error is not None:
                self._again(run, error, lambda: self._ask(run))
            else:
                self._engine.at(_SOON_S, lambda: self._claim(run), self._process)

        self._submit(run.ask).add_done_callback(answered)

    def _claim(self, run: TaskRun) -> None:
        if self._given_up(run):
            return
        if self._process.cut:
            self._engine.at(0.5, lambda: self._claim(run), self._process)
            return
        self._ledger.claims(self)
        self._check(run)

    def _check(self, run: TaskRun) -> None:
        if self._given_up(run):
            return

        def begin() -> None:
            if not self._given_up(run):
                self._begin()

        def answered(checked: Future[None]) -> None:
            error = checked.exception()
            if error is None:
                self._engine.at(0.0, begin, self._process)
            else:
                self._again(run, error, lambda: self._check(run))

        self._submit(run.check).add_done_callback(answered)

    def _given_up(self, run: TaskRun) -> bool:
        if run.cancelled.is_set() or self.stopping:
            self._end()
        return self.ended or self.failed

    def _again(self, run: TaskRun, error: BaseException, step: Callable[[], None]) -> None:
        self._tries += 1
        retriable = isinstance(error, ConnectError) and error.retriable
        if self._given_up(run):
            return
        if not retriable:
            self._fail(str(error))
        else:
            wait = min(5.0, 0.5 * 2.0 ** min(self._tries, 8))
            self._engine.at(wait, step, self._process)

    # Running.

    def _begin(self) -> None:
        if self.stopping or self.ended:
            self._end()
            return
        self.begun = True
        self._ledger.begins(self, self._process, self.config)
        self._moves.move(State.PAUSED if self._paused else State.RUNNING)
        if self.config.get("dies"):
            self._engine.at(self._engine.random.uniform(1.0, 20.0), self._die, self._process)
        self._engine.at(self._engine.random.uniform(0.2, 2.0), self._turn, self._process)

    def _die(self) -> None:
        if not self.ended and not self._ledger.healed:
            self._fail("no further")

    def _turn(self) -> None:
        if self.ended or self.failed:
            return
        if not self.still and not self._process.cut and not self._ledger.commits(self):
            self._fail("another producer has its transactional id")
            return
        self._engine.at(self._engine.random.uniform(0.5, 4.0), self._turn, self._process)

    def _fail(self, trace: str) -> None:
        if self.failed or self.ended:
            return
        self.failed = True
        if self.begun and self.plan is None and issubclass(self.task_class, TransferTask):
            self._store_after_failure()
        self._ledger.ends(self)
        if not self.stopping and not self._abandoned:
            self._moves.move(State.FAILED, trace)

    def _store_after_failure(self) -> None:
        """What the task's thread does once a step has raised: with the product's class."""
        task, store, clock = Gapped(), MemoryOffsetStore(), self._process.clock
        connector, number = self.instance.connector, self.instance.task
        hosted = WorkerTransferTask(
            task,
            WorkerTaskContext(
                connector,
                number,
                self._process.name,
                MetricRegistry(),
                OffsetReader(store, connector),
                {},
                lambda _: None,
                clock,
            ),
            {},
            OffsetWriter(store, connector),
            commit_interval_s=60.0,
            commit_timeout_s=5.0,
            clock=clock,
        )
        hosted.finish(Deadline(5.0, clock), failed=True)
        stored = OffsetReader(store, connector).offsets([{"lane": 0}], Deadline(1.0))
        self._ledger.failed_after(self, stored[0], task.steps)

    def request_stop(self, deadline: Deadline) -> None:
        if self.stopping:
            return
        self.stopping = True
        self.still = False
        slow = self.config.get("stop") == "slow"
        delay = self._engine.random.uniform(0.5, 9.0) if slow and self.begun else _SOON_S
        if self.started:
            self._engine.at(delay, self._end, self._process)
        else:
            self._end()

    def _end(self) -> None:
        if self.ended:
            return
        if self.begun and not self.failed and not self.disowned and not self._process.cut:
            self._ledger.commits(self, final=True)
        self.ended = True
        self._ledger.ends(self)
        if not self._abandoned and not self.failed:
            self._moves.move(State.UNASSIGNED)

    def freeze(self) -> None:
        self.still = True

    def thaw(self) -> None:
        self.still = False
        self._ledger.goes_on(self)

    def disown(self, deadline: Deadline) -> None:
        self.disowned = True
        self.begun = False
        self.request_stop(deadline)

    def join(self, deadline: Deadline) -> bool:
        if not self.started:
            return True
        until = self._engine.now + deadline.remaining()
        if self._engine.block(self._process, until, lambda: self.ended):
            return True
        self._abandoned = True
        self._ledger.abandoned(self)
        self._moves.move(State.UNASSIGNED)
        return False

    def set_paused(self, paused: bool) -> None:
        def apply() -> None:
            self._paused = paused
            if self.alive and self.begun and not self.stopping:
                self._moves.move(State.PAUSED if paused else State.RUNNING)

        self._engine.at(_SOON_S, apply, self._process)

    def reconfigure(self, config: Mapping[str, str]) -> Future[bool]:
        answer: Future[bool] = Future()
        taken = self.begun and self.alive and self.config.get("stubborn") is None
        if taken:
            self.config = dict(config)
            self._ledger.reconfigured(self, config)
        answer.set_result(taken)
        return answer

    def health(self) -> list[Any]:
        return []


class SimWorker(Worker):
    """Makes hosts without threads; has no clients."""

    def __init__(
        self, process: Process, ledger: Ledger, props: Mapping[str, str], *, exactly_once: bool
    ) -> None:
        super().__init__(
            WorkerConfig.from_properties(props),
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
    ) -> SimConnectorHost:
        self.plugins.connector(config["connector.class"])
        return SimConnectorHost(
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
