"""A task that is to write exactly once waits for what it cannot begin without, and for no more."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest

from connect.clients.rest_client import RestAnswer
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import ConnectError, Interrupted, RetriableError, TaskFailed
from connect.protocol.membership import NO_ERROR, Assignment
from connect.runtime.distributed.exactly_once_checks import ExactlyOnceRuns
from connect.runtime.distributed.group_configs import GroupConfigs
from connect.runtime.distributed.leader_client import FINAL_HEADER, InternalRequests
from connect.runtime.distributed.membership import Membership
from connect.runtime.distributed.zombie_fencing import ZombieFencing
from connect.runtime.stages import Stages
from connect.runtime.states import InstanceId
from connect.runtime.work.request_queue import RequestQueue
from connect.runtime.work.task_run import TaskRun
from connect.storage.config_state import ClusterConfigState
from connect.storage.memory_status_store import MemoryConfigStore
from tests.support.workers.driven_herder import Leader

TASK = InstanceId("c", 0)
UNAVAILABLE = RestAnswer(500, b'{"error_code": 500, "message": "no leader of the config topic"}')
DONE = RestAnswer(204, b"")


class NoRebalances:
    """The listener of a membership that sees no rebalance."""

    def before_join(self) -> ClusterConfigState:
        raise AssertionError

    def on_revoked(self, revoked: frozenset[InstanceId]) -> None:
        raise AssertionError

    def on_lost(self, lost: frozenset[InstanceId], generation: int) -> None:
        raise AssertionError

    def on_assigned(self, assignment: Assignment, generation: int) -> None:
        raise AssertionError


class UnreadStore(MemoryConfigStore):
    """The next `unread` readings to the end of the topic fail. `readings`: the readings so far."""

    unread = readings = 0

    def refresh(self, deadline: Deadline) -> None:
        self.readings += 1
        if self.unread > 0:
            self.unread -= 1
            raise RetriableError("no leader of the config topic")


class Worker:
    """The checks of a worker in a group, on the caller's thread. Fencing fails with `broken`."""

    def __init__(self) -> None:
        self.broken: deque[Exception] = deque()
        self.store = UnreadStore()
        self.leader = Leader()
        self.leader_requests = InternalRequests(self.leader, "HmacSHA256", lambda: None)
        self.configs = GroupConfigs(self.store, Stages(SYSTEM_CLOCK), 1.0, SYSTEM_CLOCK)
        self.membership = Membership(
            "http://here:8083", "sessioned", 0, self.store, NoRebalances(), lambda: 1, SYSTEM_CLOCK
        )
        self.membership.member_id = "here"
        self.lead("here")
        self._requests = RequestQueue(self._serve, SYSTEM_CLOCK)
        fencing = ZombieFencing(
            self.configs,
            self.store.put_task_count_record,
            lambda _, command: command(),
            self._fence_out,
            dict,
            lambda _: True,
        )
        self._runs = ExactlyOnceRuns(
            "g",
            self.configs,
            self.membership,
            self._requests,
            fencing,
            self.leader_requests,
            SYSTEM_CLOCK,
        )
        self.store.put_connector_config("c", {"name": "c"})
        self.configure(2)

    def lead(self, leader: str) -> None:
        """The group has elected this leader, and assigned the task here."""
        self.membership.assignment = Assignment(
            2, NO_ERROR, leader, f"http://{leader}:8083", 0, (("c", 0),)
        )

    def configure(self, tasks: int) -> None:
        self.store.put_task_configs("c", [{} for _ in range(tasks)])
        self.configs.adopt()

    def run(self) -> TaskRun:
        return self._runs.begin(TASK)

    def _serve(self) -> None:
        while (request := self._requests.take()) is not None:
            request()

    def _fence_out(self, connector: str, tasks: int, config: Mapping[str, str]) -> Future[None]:
        answer: Future[None] = Future()
        if self.broken:
            answer.set_exception(self.broken.popleft())
        else:
            answer.set_result(None)
        return answer


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.leader_requests.close()


def test_fencing_waits_for_the_config_topic(worker: Worker) -> None:
    worker.store.unread = 2
    worker.run().plan.pre_producer_check()
    assert worker.store.readings >= 3
    assert not worker.store.snapshot().pending_fencing("c")


def test_fencing_asks_the_leader_until_that_can(worker: Worker) -> None:
    worker.lead("leader")
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
    worker.store.unread = 1
    worker.run().plan.post_producer_check()
    assert worker.store.readings == 2


def test_a_task_with_other_configs_by_now_does_not_begin(worker: Worker) -> None:
    run = worker.run()
    worker.configure(3)
    with pytest.raises(ConnectError, match="already generated a new set of task configs"):
        run.plan.post_producer_check()


def test_a_task_that_is_stopped_does_not_wait(worker: Worker) -> None:
    worker.store.unread = 1_000
    run = worker.run()
    stopping = threading.Timer(0.2, run.cancel)
    stopping.start()
    with pytest.raises(Interrupted):
        run.plan.pre_producer_check()
    stopping.join()


def test_fencing_that_the_leader_cannot_do_for_good_fails_the_task_at_once(worker: Worker) -> None:
    worker.lead("leader")
    body = b'{"error_code": 500, "message": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}'
    worker.leader.answers.append(RestAnswer(500, body, {FINAL_HEADER: "true"}))
    with pytest.raises(TaskFailed, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        worker.run().plan.pre_producer_check()
    assert len(worker.leader.asked) == 1
