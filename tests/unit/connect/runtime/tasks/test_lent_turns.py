"""A task whose turns the engine thread takes: the rest of its life stays on its own thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

import pytest

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import ConnectError
from connect.log_fields import add_log_fields, log_fields
from connect.metrics.registry import MetricRegistry
from connect.metrics.task_metrics import TaskMetrics
from connect.metrics.worker_metrics import HostedTask, WorkerMetrics
from connect.runtime.states import InstanceId, State, StatusBook
from connect.runtime.tasks.engine_thread import EngineThread
from connect.runtime.tasks.host import TaskHost
from connect.runtime.tasks.task import WorkerTask
from tests.support.waiting import wait_until

TIMEOUT_S = 10.0
ENGINE = "the engine"


def nothing() -> None:
    """Work that takes no time."""


class Work(WorkerTask):
    """A task with a descriptor: a turn is due when bytes were sent to it, or it was woken.

    `calls`: what was called, each with the thread. Calls do what `meanwhile` has for their name.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.meanwhile: dict[str, Callable[[], None]] = {}
        self.calling = threading.Lock()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    def _call(self, name: str) -> None:
        # Two calls at a time are a defect.
        assert self.calling.acquire(blocking=False)
        try:
            self.calls.append((name, threading.current_thread().name))
            self.meanwhile.get(name, nothing)()
        finally:
            self.calling.release()

    def start(self) -> None:
        self._call("start")

    def descriptor(self) -> int:
        return self._ours.fileno()

    def turn(self) -> None:
        self._call("own turn")
        threading.Event().wait(0.01)

    def turn_now(self) -> float:
        try:
            while self._ours.recv(4096):
                pass
        except BlockingIOError:
            """All is read."""
        self._call("turn")
        return 1_000.0

    def wake(self) -> None:
        self._theirs.send(b"\0")

    def pause(self) -> None:
        self._call("pause")

    def resume(self) -> None:
        self._call("resume")

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        self._call("reconfigure")
        return True

    def commit_soon(self) -> Future[None]:
        self._call("commit")
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        self._call("finish")
        return True

    def close(self) -> None:
        self._call("close")

    def release(self) -> None:
        self._ours.close()
        self._theirs.close()

    @property
    def turns(self) -> int:
        return sum(name == "turn" for name, _ in self.calls)

    def wait_for_turns(self) -> None:
        """Wait until it has turns, now."""
        had = self.turns
        self.wake()
        wait_until(lambda: self.turns > had, TIMEOUT_S, "a turn")

    def thread_of(self, call: str) -> set[str]:
        return {thread for name, thread in self.calls if name == call}


class Stop:
    """Stops whoever calls it, until `open`."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.open.wait(TIMEOUT_S)


class Worker:
    """Hosts tasks with one engine thread."""

    def __init__(self) -> None:
        self.engine = EngineThread(ENGINE)
        self.statuses = StatusBook("w")
        self._figures = WorkerMetrics("w", "1", MetricRegistry(), dict, SYSTEM_CLOCK)
        self.hosts: list[TaskHost] = []
        self._works: list[Work] = []

    def host(self, work: Work) -> TaskHost:
        number = len(self.hosts)
        made = TaskHost(
            InstanceId("c", number),
            work,
            object,
            {},
            self.statuses,
            paused=False,
            final_timeout_s=1.0,
            metrics=HostedTask(self._figures, TaskMetrics("c", number, SYSTEM_CLOCK)),
            engine=self.engine,
        )
        self.hosts.append(made)
        self._works.append(work)
        made.start()
        return made

    def run(self, work: Work) -> TaskHost:
        """Host a task whose turns are lent."""
        made = self.host(work)
        wait_until(lambda: work.turns > 0, TIMEOUT_S, "the first turn")
        return made

    def state(self, host: TaskHost) -> State | None:
        status = self.statuses.get(host.instance)
        return None if status is None else status.state

    def stop(self, host: TaskHost) -> None:
        deadline = Deadline(TIMEOUT_S)
        host.request_stop(deadline)
        assert host.join(deadline)

    def close(self) -> None:
        for host in self.hosts:
            self.stop(host)
        assert self.engine.close(Deadline(TIMEOUT_S))
        for work in self._works:
            work.release()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


@pytest.fixture
def work() -> Work:
    return Work()


def test_log_lines_of_all_its_calls_name_the_task_whoever_makes_them(worker: Worker) -> None:
    """The second task starts while the engine thread, which the first one started, runs."""
    works = [Work(), Work()]
    fields: list[list[tuple[str, Mapping[str, str | int]]]] = [[], []]

    def noted(number: int, call: str) -> Callable[[], None]:
        return lambda: fields[number].append((call, log_fields()))

    for number, work in enumerate(works):
        note = noted(number, "start")
        flow = f"{number}->x"

        def start(note: Callable[[], None] = note, flow: str = flow) -> None:
            add_log_fields(flow=flow)
            note()

        work.meanwhile = {"start": start, "turn": noted(number, "turn")}
        worker.run(work)
    works[0].wait_for_turns()

    for number in (0, 1):
        assert {call for call, _ in fields[number]} == {"start", "turn"}
        for _, shown in fields[number]:
            assert shown == {"connector": "c", "task": number, "flow": f"{number}->x"}


def test_turns_are_the_engine_threads_and_all_else_its_own(worker: Worker, work: Work) -> None:
    host = worker.run(work)
    assert host.reconfigure({}).result(TIMEOUT_S)
    work.wait_for_turns()
    host.commit_soon().result(TIMEOUT_S)
    work.wait_for_turns()
    worker.stop(host)
    assert work.thread_of("turn") == {ENGINE}
    for call in ("start", "reconfigure", "commit", "finish", "close"):
        assert work.thread_of(call) == {"task-c-0"}, call
    assert work.thread_of("own turn") == set()
    assert worker.state(host) is State.UNASSIGNED


def test_a_paused_task_has_turns(worker: Worker, work: Work) -> None:
    host = worker.run(work)
    host.set_paused(True)
    wait_until(lambda: worker.state(host) is State.PAUSED, TIMEOUT_S, "the pause")
    work.wait_for_turns()
    host.set_paused(False)
    wait_until(lambda: worker.state(host) is State.RUNNING, TIMEOUT_S, "the end of the pause")
    work.wait_for_turns()
    assert work.thread_of("pause") | work.thread_of("resume") == {"task-c-0"}


@pytest.mark.parametrize("what", ["stop", "reconfigure"])
def test_what_arrives_during_a_turn_waits_for_its_end(
    worker: Worker, work: Work, what: str
) -> None:
    host = worker.run(work)
    stop = Stop()
    work.meanwhile["turn"] = stop
    work.wake()
    assert stop.reached.wait(TIMEOUT_S)
    if what == "stop":
        host.request_stop(Deadline(TIMEOUT_S))
    else:
        taken = host.reconfigure({})
    del work.meanwhile["turn"]
    assert not work.thread_of("finish") | work.thread_of("reconfigure")
    stop.open.set()
    if what == "stop":
        assert host.join(Deadline(TIMEOUT_S))
        assert work.thread_of("finish") == {"task-c-0"}
    else:
        assert taken.result(TIMEOUT_S)
        work.wait_for_turns()


def test_a_frozen_task_has_no_turns(worker: Worker, work: Work) -> None:
    host = worker.run(work)
    host.freeze()
    for _ in range(2):  # Requests are served all the same.
        assert host.reconfigure({}).result(TIMEOUT_S)
    had = work.turns
    work.wake()
    assert host.reconfigure({}).result(TIMEOUT_S)
    assert (work.turns, host.alive) == (had, True)
    host.thaw()
    wait_until(lambda: work.turns > had, TIMEOUT_S, "a turn after the thaw")


def test_a_frozen_task_that_another_worker_has_stores_nothing(worker: Worker, work: Work) -> None:
    host = worker.run(work)
    host.freeze()
    host.disown(Deadline(TIMEOUT_S))
    assert host.join(Deadline(TIMEOUT_S))
    assert not work.thread_of("finish")
    assert work.thread_of("close") == {"task-c-0"}


def test_a_turn_that_raises_fails_the_task(worker: Worker, work: Work) -> None:
    host = worker.run(work)

    def fail() -> None:
        raise ConnectError("no further")

    work.meanwhile["turn"] = fail
    work.wake()
    wait_until(lambda: worker.state(host) is State.FAILED, TIMEOUT_S, "the failure")
    status = worker.statuses.get(host.instance)
    assert status is not None
    assert status.trace is not None
    assert "no further" in status.trace
    assert "in turn_now" in status.trace
    assert host.join(Deadline(TIMEOUT_S))
    assert work.thread_of("finish") == work.thread_of("close") == {"task-c-0"}


def test_without_the_engine_thread_a_task_takes_its_turns_itself(
    worker: Worker, work: Work
) -> None:
    host = worker.run(work)
    assert worker.engine.close(Deadline(TIMEOUT_S))
    wait_until(lambda: bool(work.thread_of("own turn")), TIMEOUT_S, "a turn of its own")
    assert work.thread_of("own turn") == {"task-c-0"}
    assert host.reconfigure({}).result(TIMEOUT_S)
    assert worker.state(host) is State.RUNNING


def test_a_task_that_hangs_in_a_turn_is_abandoned_with_that_stack(
    worker: Worker, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    host = worker.run(work)
    stop = Stop()
    work.meanwhile["turn"] = stop
    work.wake()
    assert stop.reached.wait(TIMEOUT_S)
    soon = Deadline(0.0)
    host.request_stop(soon)
    assert not host.join(soon)
    assert "in turn_now" in caplog.text
    stop.open.set()
    assert host.join(Deadline(TIMEOUT_S))
    assert not work.thread_of("finish")


def test_no_task_holds_up_the_others(worker: Worker) -> None:
    """One hangs in its start, one stores its last offsets slowly, one fails."""
    flowing, starting, ending, failing = Work(), Work(), Work(), Work()
    worker.run(flowing)
    started, ended = Stop(), Stop()
    starting.meanwhile["start"] = started
    ending.meanwhile["finish"] = ended
    worker.host(starting)
    worker.run(ending).request_stop(Deadline(TIMEOUT_S))
    assert started.reached.wait(TIMEOUT_S)
    assert ended.reached.wait(TIMEOUT_S)
    flowing.wait_for_turns()
    failed = worker.run(failing)

    def fail() -> None:
        raise ConnectError("no further")

    failing.meanwhile["turn"] = fail
    failing.wake()
    wait_until(lambda: worker.state(failed) is State.FAILED, TIMEOUT_S, "the failure")
    flowing.wait_for_turns()
    started.open.set()
    ended.open.set()
    wait_until(lambda: starting.turns > 0, TIMEOUT_S, "the first turn of the task that hung")
