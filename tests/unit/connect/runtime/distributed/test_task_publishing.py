"""Committing task configs when a connector changes its mind faster than the topic is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import cast

import pytest

from connect.errors import RetriableError
from connect.runtime.work.running_connectors import RunningConnectors
from connect.runtime.work.task_config_publisher import TaskConfigPublisher
from connect.runtime.worker import Worker
from connect.runtime.worker_connector import TasksAnswer, WorkerConnector
from connect.storage.config_records import (
    ConnectorConfigRecord,
    TaskCommitRecord,
    TaskConfigRecord,
)
from connect.storage.config_state import ClusterConfigState, ConfigStateBuilder
from connect.storage.instance_id import InstanceId
from tests.support.fake_clock import FakeClock

CONFIG = {"name": "c", "tasks.max": "5"}
Configs = list[dict[str, str]]


class Host:
    """A connector whose tasks are what the test says."""

    def note_unpublished(self, reason: str | None) -> None: ...

    def __init__(self) -> None:
        self.wanted: Configs | None = [{"n": "0"}]

    def tasks(self, max_tasks: int) -> Future[TasksAnswer]:
        answer: Future[TasksAnswer] = Future()
        answer.set_result((Host, self.wanted))
        return answer


class Leader:
    """The herder, and the way to its leader: what was asked for waits for an answer."""

    def __init__(self) -> None:
        self.is_leader = False
        self.asked: list[tuple[Configs, Future[None]]] = []
        self._builder = ConfigStateBuilder()
        self._builder.apply(0, ConnectorConfigRecord("c", CONFIG))

    @property
    def configs(self) -> ClusterConfigState:
        return self._builder.snapshot()

    def commit_task_configs(
        self, connector: str, configs: Sequence[Mapping[str, str]]
    ) -> Future[None] | None:
        self.asked.append(([dict(config) for config in configs], Future()))
        return None if self.is_leader else self.asked[-1][1]

    def task_configs_answered(self, connector: str) -> None: ...

    def read_back(self, configs: Configs) -> None:
        """The worker has read what was committed."""
        offset = self.configs.offset
        for number, config in enumerate(configs):
            self._builder.apply(offset + number, TaskConfigRecord(InstanceId("c", number), config))
        self._builder.apply(offset + len(configs), TaskCommitRecord("c", len(configs)))


class Stand:
    """A publisher, what it talks to, and the herder's thread: `turn` runs what was posted."""

    def __init__(self) -> None:
        self.host, self.leader = Host(), Leader()
        self._posted: list[Callable[[], None]] = []
        self.waits: list[float] = []
        self.changed: dict[str, str] = {}
        self.publisher = TaskConfigPublisher(
            cast(Worker, self),
            cast(RunningConnectors, self),
            self.leader,
            self._later,
            FakeClock(),
        )

    @property
    def plugins(self) -> Stand:
        return self

    def name_of(self, task_class: type) -> str:
        return "T"

    def live_keys(self, config: Mapping[str, str]) -> frozenset[str]:
        return frozenset({"live"})

    def host_of(self, connector: str) -> WorkerConnector:
        return cast(WorkerConnector, self.host)

    def config_of(self, connector: str) -> Mapping[str, str]:
        return {**CONFIG, **self.changed}

    def _later(self, seconds: float, command: Callable[[], None]) -> None:
        if seconds:
            self.waits.append(seconds)
        self._posted.append(command)

    def turn(self) -> None:
        while self._posted:
            self._posted.pop(0)()

    def ask(self, wanted: Configs | None) -> None:
        self.host.wanted = wanted
        self.publisher.wanted("c")
        self.turn()

    @property
    def sent(self) -> list[int]:
        """How many tasks each commit had."""
        return [len(configs) for configs, _ in self.leader.asked]


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_what_is_not_known_yet_is_not_committed(stand: Stand) -> None:
    stand.ask(None)
    assert stand.sent == []
    stand.ask([])
    stand.ask([{"n": "0"}])
    assert stand.sent == [0], "the second waits for the first"


def test_a_second_commit_waits_for_the_answer_to_the_first(stand: Stand) -> None:
    stand.ask([{"n": "0"}])
    stand.ask([{"n": "0"}, {"n": "1"}])
    assert stand.sent == [1]
    stand.leader.asked[0][1].set_result(None)
    stand.turn()
    assert stand.sent == [1, 2]


def test_going_back_to_what_was_read_last_is_committed_after_a_change_not_read_yet(
    stand: Stand,
) -> None:
    stand.ask([{"n": "0"}])
    stand.leader.asked[0][1].set_result(None)
    stand.leader.read_back(stand.leader.asked[0][0])
    stand.turn()

    stand.ask([])
    stand.leader.asked[1][1].set_result(None)
    stand.turn()
    stand.ask([{"n": "0"}])

    assert stand.sent == [1, 0, 1]


def test_the_same_again_is_not_committed_again(stand: Stand) -> None:
    stand.ask([{"n": "0"}])
    stand.leader.asked[0][1].set_result(None)
    stand.leader.read_back(stand.leader.asked[0][0])
    stand.turn()
    stand.ask([{"n": "0"}])
    assert stand.sent == [1]


def test_a_commit_that_failed_is_tried_again_later(stand: Stand) -> None:
    stand.ask([{"n": "0"}])
    stand.leader.asked[0][1].set_exception(RetriableError("no leader"))
    stand.turn()
    assert stand.sent == [1, 1]
    assert stand.waits == [pytest.approx(0.25, rel=0.2)]


def test_a_leader_commits_itself(stand: Stand) -> None:
    stand.leader.is_leader = True
    stand.ask([{"n": "0"}])
    stand.ask([])
    assert stand.sent == [1, 0]


def test_what_tasks_take_of_their_connector_while_they_run_is_not_committed(stand: Stand) -> None:
    stand.ask([{"n": "0", "live": "1"}])
    (committed, answer), *_ = stand.leader.asked
    assert committed == [{"n": "0", "task.class": "T"}]
    stand.leader.read_back(committed)
    answer.set_result(None)
    stand.turn()
    stand.changed = {"live": "2"}
    stand.ask([{"n": "0", "live": "2"}])
    assert stand.sent == [1]
    stand.changed = {"other": "2"}
    stand.ask([{"n": "0", "live": "2"}])
    assert stand.sent == [1, 1]
