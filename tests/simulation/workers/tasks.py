"""A task without a thread: it starts, copies, commits, fails and stops in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from connect.clock import Deadline
from connect.errors import ConnectError
from connect.plugin import TransferTask
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.states import InstanceId, InvalidTransition, State, StatusBook
from tests.simulation.workers.engine import Process
from tests.simulation.workers.failing import fail_a_transfer

if TYPE_CHECKING:
    from connect.runtime.work.task_run import TaskRun
    from tests.simulation.workers.ledger import Ledger

__all__ = ["SOON_S", "Moves", "SimTaskHost"]

SOON_S = 0.01
"""How long what is not slow takes."""


class Moves:
    """Statuses of one instance, as its host moves them."""

    def __init__(self, instance: InstanceId, statuses: StatusBook) -> None:
        self.instance = instance
        self._statuses = statuses

    def move(self, state: State, trace: str | None = None) -> None:
        try:
            self._statuses.move(self.instance, state, trace)
        except InvalidTransition:
            """The herder was faster, as with real hosts."""


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
        self._moves = Moves(instance, statuses)
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
        delay = self._engine.random.uniform(0.1, 8.0) if slow else SOON_S
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
                self._engine.at(SOON_S, lambda: self._claim(run), self._process)

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
        if self.moving and not self._process.cut and not self._ledger.commits(self):
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
        connector, number = self.instance.connector, self.instance.task
        stored, steps = fail_a_transfer(connector, number, self._process.clock)
        self._ledger.failed_after(self, stored, steps)

    def request_stop(self, deadline: Deadline) -> None:
        if self.stopping:
            return
        self.stopping = True
        self.still = False
        slow = self.config.get("stop") == "slow"
        delay = self._engine.random.uniform(0.5, 9.0) if slow and self.begun else SOON_S
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

        self._engine.at(SOON_S, apply, self._process)

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
