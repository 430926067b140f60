"""A task that is to write exactly once waits for what it cannot begin without, and for no more."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import TypeVar

import pytest

from connect.clients.rest_client import RestAnswer
from connect.clock import SYSTEM_CLOCK
from connect.errors import ConnectError, Interrupted, TaskFailed
from connect.runtime.distributed.exactly_once_checks import ExactlyOnceRuns
from connect.runtime.distributed.leader_client import FINAL_HEADER, InternalRequests
from connect.runtime.distributed.zombie_fencing import ZombieFencing
from connect.runtime.states import InstanceId
from connect.runtime.work.task_run import TaskRun
from connect.storage.config_state import ClusterConfigState
from connect.storage.memory_status_store import MemoryConfigStore
from tests.support.driven_herder import Leader

T = TypeVar("T")
TASK = InstanceId("c", 0)
UNAVAILABLE = RestAnswer(500, b'{"error_code": 500, "message": "no leader of the config topic"}')
DONE = RestAnswer(204, b"")


class Worker:
    """A herder's part in it, on the caller's thread. `unread`: how many of the next readings of the
    config topic fail; `fencing` fails with what `broken` has."""

    leader_url = "http://leader:8083"

    def __init__(self) -> None:
        self.is_leader = True
        self.unread = self.readings = 0
        self.broken: deque[Exception] = deque()
        self.store = MemoryConfigStore()
        self.leader = Leader()
        self.requests = InternalRequests(self.leader, "HmacSHA256", lambda: None)
        fencing = ZombieFencing(self, self.store, self._fence_out, dict, lambda _: True)
        self._runs = ExactlyOnceRuns("g", self, fencing, self.requests, SYSTEM_CLOCK)
        self.store.put_connector_config("c", {"name": "c"})
        self.configure(2)

    def configure(self, tasks: int) -> None:
        self.store.put_task_configs("c", [{} for _ in range(tasks)])
        self.configs = self.store.snapshot()

    def run(self) -> TaskRun:
        return self._runs.begin(TASK)

    def _fence_out(self, connector: str, tasks: int, config: Mapping[str, str]) -> Future[None]:
        answer: Future[None] = Future()
        if self.broken:
            answer.set_exception(self.broken.popleft())
        else:
            answer.set_result(None)
        return answer

    # What the checks need.

    configs: ClusterConfigState

    def refresh(self) -> bool:
        self.readings += 1
        self.unread -= 1
        self.configs = self.store.snapshot()
        return self.unread < 0

    def assigned_here(self, instance: InstanceId) -> bool:
        return True

    def submit(self, request: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()
        try:
            answer.set_result(request())
        except ConnectError as error:
            answer.set_exception(error)
        return answer

    def write_as_leader(self, write: Callable[[], None]) -> None:
        write()

    def post(self, delay_s: float, command: Callable[[], None]) -> None:
        command()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.requests.close()


def test_fencing_waits_for_the_config_topic(worker: Worker) -> None:
    worker.unread = 2
    worker.run().plan.pre_producer_check()
    assert worker.readings >= 3
    assert not worker.store.snapshot().pending_fencing("c")


def test_fencing_asks_the_leader_until_that_can(worker: Worker) -> None:
    worker.is_leader = False
    worker.leader.answers.extend([UNAVAILABLE, DONE])
    worker.run().plan.pre_producer_check()
    assert len(worker.leader.asked) == 2


def test_fencing_that_brokers_refuse_for_good_fails_the_task_at_once(worker: Worker) -> None:
    worker.run().plan.pre_producer_check()
    worker.configure(3)
    worker.broken.append(ConnectError("not authorized"))
    with pytest.raises(TaskFailed, match=r"source connector c prior .*: not authorized"):
        worker.run().plan.pre_producer_check()
    assert not worker.broken


def test_the_last_check_waits_for_the_config_topic(worker: Worker) -> None:
    worker.unread = 1
    worker.run().plan.post_producer_check()
    assert worker.readings == 2


def test_a_task_with_other_configs_by_now_does_not_begin(worker: Worker) -> None:
    run = worker.run()
    worker.configure(3)
    with pytest.raises(ConnectError, match="already generated a new set of task configs"):
        run.plan.post_producer_check()


def test_a_task_that_is_stopped_does_not_wait(worker: Worker) -> None:
    worker.unread = 1_000
    run = worker.run()
    stopping = threading.Timer(0.2, run.cancel)
    stopping.start()
    with pytest.raises(Interrupted):
        run.plan.pre_producer_check()
    stopping.join()


def test_fencing_that_the_leader_cannot_do_for_good_fails_the_task_at_once(worker: Worker) -> None:
    worker.is_leader = False
    body = b'{"error_code": 500, "message": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}'
    worker.leader.answers.append(RestAnswer(500, body, {FINAL_HEADER: "true"}))
    with pytest.raises(TaskFailed, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        worker.run().plan.pre_producer_check()
    assert len(worker.leader.asked) == 1
