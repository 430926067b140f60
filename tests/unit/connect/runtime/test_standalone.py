"""What the herder does between connectors and tasks, without any cluster: offsets are in memory,
and the tasks move nothing. The same on a real broker: tests/integration/test_standalone_herder."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import ClassVar

import pytest

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
from connect.runtime.plugins import PluginRegistry
from connect.runtime.standalone import StandaloneHerder
from connect.runtime.states import InstanceId, State, Status
from connect.runtime.worker import Worker
from connect.storage.offset_store import MemoryOffsetStore
from tests.support.waiting import wait_until

TIMEOUT_S = 10.0
BYTES = "ByteArrayConverter"


class Idle(TransferTask):
    """Moves nothing. `commits` "slow": gathering its offsets takes turns of its loop."""

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._woken = threading.Event()
        self._gathering: Future[list[StoredOffset]] | None = None

    def step(self, timeout: float) -> None:
        gathering, self._gathering = self._gathering, None
        if gathering is not None:
            gathering.set_result([({"p": 1}, {"o": 2})])
        if self._config.get("step") == "fails":
            raise ConnectError("no further")
        self._woken.wait(timeout)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        answer: Future[list[StoredOffset]] = Future()
        self._gathering = answer
        return answer

    def committed(self) -> None:
        """Nothing depends on it."""

    def pause(self) -> None:
        """Nothing moves anyway."""

    def resume(self) -> None:
        """Nothing moves anyway."""

    def drain(self, deadline: Deadline) -> None:
        """Nothing is under way."""

    def stop(self) -> None:
        """Nothing is open."""

    def health(self) -> list[PartitionHealth]:
        return []


class Gated(Connector):
    """Gives as many tasks as `wanted` was when it was asked, once the gate is open."""

    wanted: ClassVar[int] = 1
    gate: ClassVar[threading.Event] = threading.Event()
    asked: ClassVar[threading.Semaphore] = threading.Semaphore(0)
    failures: ClassVar[list[Exception]] = []
    last: ClassVar[Gated]

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        type(self).last = self

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return Idle

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = self.wanted
        self.asked.release()
        if self.failures:
            raise self.failures.pop()
        self.gate.wait(TIMEOUT_S)
        return [{**self._config, "task": str(number)} for number in range(count)]

    def stop(self) -> None:
        """Nothing is open."""


Heard = list[tuple[InstanceId, Status]]


@pytest.fixture
def heard() -> Heard:
    return []


@pytest.fixture
def store() -> MemoryOffsetStore:
    return MemoryOffsetStore()


@pytest.fixture
def herder(heard: Heard, store: MemoryOffsetStore) -> Iterator[StandaloneHerder]:
    Gated.wanted, Gated.asked, Gated.failures = 1, threading.Semaphore(0), []
    Gated.gate.set()
    plugins = PluginRegistry(discover=False)
    plugins.register(Gated)
    config = WorkerConfig.from_properties(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "group.id": "g",
            "offset.storage.topic": "unused",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,
        }
    )
    worker = Worker(
        config,
        plugins,
        MetricRegistry(),
        worker_id="w",
        offset_store=store,
        status_listener=lambda instance, status: heard.append((instance, status)),
    )
    opened = StandaloneHerder(worker)
    opened.start(Deadline(TIMEOUT_S))
    yield opened
    Gated.gate.set()
    opened.stop(Deadline(TIMEOUT_S))


def put(herder: StandaloneHerder, **config: str) -> bool:
    return herder.put_connector("c", {"connector.class": "Gated", "tasks.max": "9", **config})


def has_tasks(herder: StandaloneHerder, *states: State) -> None:
    wait_until(
        lambda: [task.status.state for task in herder.status("c").tasks] == list(states),
        TIMEOUT_S,
        f"tasks in states {states}",
    )


def test_a_new_connector_is_told_from_a_changed_one(herder: StandaloneHerder) -> None:
    assert put(herder)
    assert not put(herder)
    assert herder.connectors() == ["c"]


def test_a_request_for_new_tasks_during_an_answer_is_not_lost(herder: StandaloneHerder) -> None:
    Gated.gate.clear()
    put(herder)
    assert Gated.asked.acquire(timeout=TIMEOUT_S)
    Gated.wanted = 3
    Gated.last.context.request_task_reconfiguration()
    Gated.last.context.request_task_reconfiguration()
    Gated.gate.set()
    has_tasks(herder, State.RUNNING, State.RUNNING, State.RUNNING)


def test_a_connector_that_fails_to_give_tasks_is_asked_again(
    herder: StandaloneHerder, caplog: pytest.LogCaptureFixture
) -> None:
    Gated.failures.append(ConnectError("cluster away"))
    put(herder)
    has_tasks(herder, State.RUNNING)
    assert "Connector c gave no task configs: cluster away; asked again in 0.2 s" in caplog.text


def test_an_error_that_a_connector_raises_later_fails_it_and_not_its_tasks(
    herder: StandaloneHerder,
) -> None:
    put(herder)
    has_tasks(herder, State.RUNNING)
    Gated.last.context.raise_error(ConnectError("found something"))
    status = herder.status("c")
    assert status.status.state is State.FAILED
    assert "found something" in (status.status.trace or "")
    has_tasks(herder, State.RUNNING)


def test_a_failed_connector_can_be_restarted(herder: StandaloneHerder, heard: Heard) -> None:
    put(herder)
    has_tasks(herder, State.RUNNING)
    Gated.last.context.raise_error(ConnectError("found something"))
    herder.restart_connector("c")
    wait_until(lambda: herder.status("c").status.state is State.RUNNING, TIMEOUT_S, "RUNNING")
    states = [status.state for instance, status in heard if not instance.is_task]
    assert states == [
        State.UNASSIGNED,
        State.RUNNING,
        State.FAILED,
        State.RESTARTING,
        State.RUNNING,
    ]


def test_a_stopped_connector_is_not_listened_to(herder: StandaloneHerder) -> None:
    put(herder)
    has_tasks(herder, State.RUNNING)
    old = Gated.last
    herder.restart_connector("c")
    wait_until(lambda: herder.status("c").status.state is State.RUNNING, TIMEOUT_S, "RUNNING")
    old.context.raise_error(ConnectError("from the past"))
    assert herder.status("c").status.state is State.RUNNING


def test_deleting_is_heard_of_by_listeners(herder: StandaloneHerder, heard: Heard) -> None:
    put(herder)
    has_tasks(herder, State.RUNNING)
    herder.delete_connector("c")
    ends = {instance: status.state for instance, status in heard}
    assert ends == {InstanceId("c"): State.DESTROYED, InstanceId("c", 0): State.DESTROYED}


def test_offsets_that_only_the_tasks_loop_can_gather_are_stored_at_the_end(
    herder: StandaloneHerder, store: MemoryOffsetStore
) -> None:
    put(herder)
    has_tasks(herder, State.RUNNING)
    assert herder.stop(Deadline(TIMEOUT_S))
    key = b'["c",{"p":1}]'
    assert store.get([key], Deadline(1)) == {key: b'{"o":2}'}


def test_also_of_a_task_that_failed(herder: StandaloneHerder, store: MemoryOffsetStore) -> None:
    put(herder, step="fails")
    has_tasks(herder, State.FAILED)
    key = b'["c",{"p":1}]'
    wait_until(lambda: store.get([key], Deadline(1)), TIMEOUT_S, "offsets of the failed task")


def test_after_stop_statuses_can_still_be_read_and_nothing_can_be_changed(
    herder: StandaloneHerder,
) -> None:
    put(herder)
    has_tasks(herder, State.RUNNING)
    assert herder.stop(Deadline(TIMEOUT_S))
    assert herder.stop(Deadline(TIMEOUT_S))
    assert herder.status("c").status.state is State.UNASSIGNED
    with pytest.raises(ConnectError, match="shutting down"):
        put(herder)
