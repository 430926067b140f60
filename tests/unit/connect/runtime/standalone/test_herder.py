"""What the herder does between connectors and tasks, without any cluster: offsets are in memory,
and the tasks move nothing. The same on a real broker: tests/integration/test_standalone_herder."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import ClassVar

import pytest

from connect.clock import Deadline
from connect.config.definition import ConfigDef
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.plugin import (
    AlteredOffset,
    Connector,
    PartitionHealth,
    SourceTask,
    StoredOffset,
    TransferTask,
)
from connect.runtime.errors import AlreadyExists, BadRequest, NotFound
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.rest_entities import ConnectorInfo, OffsetEntry, TaskId
from connect.runtime.standalone.herder import StandaloneHerder
from connect.runtime.states import InstanceId, State, Status, TargetState
from connect.runtime.worker import Worker
from tests.support.waiting import wait_until
from tests.support.workers.memory_offset_store import MemoryOffsetStore

TIMEOUT_S = 10.0
BYTES = "ByteArrayConverter"


class Idle(TransferTask):
    """Moves nothing. Gathering its offsets takes turns of its loop."""

    taken: ClassVar[list[str]] = []
    """The live values that tasks were offered."""

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        self.taken.append(config.get("live", "none"))
        return config.get("live") != "refused"

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        self.context.topic_used(f"t-{self.context.connector_name}")
        self._woken = threading.Event()
        self._gathering: Future[list[StoredOffset]] | None = None

    def step(self, timeout: float) -> None:
        self.deliver()
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

    def deliver(self) -> None:
        gathering, self._gathering = self._gathering, None
        if gathering is not None:
            gathering.set_result([({"p": 1}, {"o": 2})])

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
    same_configs: ClassVar[bool] = False
    external_offsets: ClassVar[bool] = False
    last: ClassVar[Gated]

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    @classmethod
    def version(cls) -> str:
        return "7.1"

    @classmethod
    def live_keys(cls) -> frozenset[str]:
        return frozenset({"live"})

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        if any(offset == {"o": 13} for _, offset in offsets):
            raise BadRequest("there is no offset 13")
        return not cls.external_offsets

    def start(self, config: Mapping[str, str]) -> None:
        if config.get("start") == "fails":
            raise ConnectError("no start")
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
        common = {} if self.same_configs else self._config
        return [{**common, "task": str(number)} for number in range(count)]

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
    Gated.same_configs = Gated.external_offsets = False
    Idle.taken = []
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
    assert "Cannot commit the task configs of connector c; retrying in 0." in caplog.text
    assert "cluster away" in caplog.text


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


# What REST asks.


def put_config(herder: StandaloneHerder, **config: str) -> tuple[bool, ConnectorInfo]:
    return herder.put_connector_config(
        "c", {"connector.class": "Gated", "tasks.max": "9", **config}, allow_replace=True
    )


def states_of(herder: StandaloneHerder) -> list[str]:
    """Of the connector and its tasks, as REST shows them."""
    found = herder.connector_state("c")
    return [found.state, *(task.state for task in found.tasks)]


def becomes(herder: StandaloneHerder, *states: str) -> None:
    wait_until(lambda: states_of(herder) == list(states), TIMEOUT_S, f"states {states}")


def test_a_put_returns_when_the_tasks_are_known(herder: StandaloneHerder) -> None:
    Gated.wanted = 2
    created, info = put_config(herder)
    assert created
    assert info == ConnectorInfo(
        "c",
        {"connector.class": "Gated", "tasks.max": "9", "name": "c"},
        [TaskId("c", 0), TaskId("c", 1)],
        "source",
    )
    assert not put_config(herder, more="x")[0]
    assert herder.connector_config("c")["more"] == "x"
    assert herder.connector_info("c").tasks == [TaskId("c", 0), TaskId("c", 1)]


def test_task_infos_have_the_class_that_runs(herder: StandaloneHerder) -> None:
    put_config(herder)
    (info,) = herder.task_infos("c")
    assert info.id == TaskId("c", 0)
    assert info.config["task.class"] == f"{__name__}.Idle"


def test_a_connector_is_not_replaced_where_it_may_not(herder: StandaloneHerder) -> None:
    put_config(herder)
    with pytest.raises(AlreadyExists, match="Connector c already exists"):
        herder.put_connector_config("c", {"connector.class": "Gated"}, allow_replace=False)


def test_a_name_in_the_config_is_the_connectors(herder: StandaloneHerder) -> None:
    with pytest.raises(BadRequest, match=r"\(d\) doesn't match connector name in the URL \(c\)"):
        put_config(herder, name="d")


def test_a_wrong_config_is_refused_with_all_that_is_wrong(herder: StandaloneHerder) -> None:
    with pytest.raises(BadRequest, match="contains the following 2 error"):
        put_config(herder, **{"tasks.max": "0", "errors.tolerance": "some"})
    assert herder.connectors() == []


def test_what_keeps_a_connector_from_starting_is_raised_and_shown(
    herder: StandaloneHerder,
) -> None:
    with pytest.raises(ConnectError, match="no start"):
        put_config(herder, start="fails")
    state = herder.connector_state("c")
    assert state.state == "FAILED"
    assert "no start" in (state.trace or "")


@pytest.mark.parametrize(
    ("target", "states"),
    [
        (TargetState.STARTED, ["RUNNING", "RUNNING"]),
        (TargetState.PAUSED, ["PAUSED"]),
        (TargetState.STOPPED, ["STOPPED"]),
    ],
)
def test_the_state_that_a_new_connector_begins_in(
    herder: StandaloneHerder, target: TargetState, states: list[str]
) -> None:
    herder.put_connector_config(
        "c", {"connector.class": "Gated"}, allow_replace=False, initial_state=target
    )
    becomes(herder, *states)
    herder.resume_connector("c")
    becomes(herder, "RUNNING", "RUNNING")


def test_a_patch_changes_adds_and_removes(herder: StandaloneHerder) -> None:
    put_config(herder, a="1", b="2")
    info = herder.patch_connector_config("c", {"a": None, "b": "3", "c": "4"})
    assert info.config == {
        "connector.class": "Gated",
        "tasks.max": "9",
        "name": "c",
        "b": "3",
        "c": "4",
    }
    with pytest.raises(NotFound, match="Connector d not found"):
        herder.patch_connector_config("d", {})


def test_tasks_restart_when_only_the_connectors_config_has_changed(
    herder: StandaloneHerder, heard: Heard
) -> None:
    Gated.same_configs = True
    put_config(herder)
    has_tasks(herder, State.RUNNING)
    heard.clear()
    put_config(herder, **{"producer.override.linger.ms": "1"})
    has_tasks(herder, State.RUNNING)
    assert State.UNASSIGNED in [status.state for instance, status in heard if instance.is_task]


def test_what_tasks_take_while_they_run_restarts_nothing(
    herder: StandaloneHerder, heard: Heard
) -> None:
    put_config(herder, live="1")
    has_tasks(herder, State.RUNNING)
    connector = Gated.last
    heard.clear()
    put_config(herder, live="2")
    herder.patch_connector_config("c", {"live": None})
    assert Idle.taken == ["2", "none"]
    assert heard == []
    assert Gated.last is connector
    assert "live" not in herder.connector_config("c")
    put_config(herder)
    assert Gated.last is not connector, "put again as it is, it is begun anew"
    connector = Gated.last
    put_config(herder, live="3")
    assert herder.task_infos("c")[0].config["live"] == "3"
    connector.context.request_task_reconfiguration()
    Gated.asked.acquire()
    put_config(herder, live="4")
    assert Idle.taken == ["2", "none", "3", "4"], "the connector's own value is old"


def test_a_task_that_does_not_take_a_live_value_is_restarted_with_it(
    herder: StandaloneHerder, heard: Heard
) -> None:
    put_config(herder)
    has_tasks(herder, State.RUNNING)
    heard.clear()
    put_config(herder, live="refused")
    has_tasks(herder, State.RUNNING)
    assert State.RESTARTING in [status.state for instance, status in heard if instance.is_task]
    assert not [status for instance, status in heard if not instance.is_task]


def test_a_stopped_connector_has_no_tasks(herder: StandaloneHerder) -> None:
    put_config(herder)
    becomes(herder, "RUNNING", "RUNNING")
    herder.stop_connector("c")
    assert states_of(herder) == ["STOPPED"]
    assert herder.connector_info("c").tasks == []
    assert herder.task_infos("c") == []
    put_config(herder, more="x")
    assert states_of(herder) == ["STOPPED"]
    herder.resume_connector("c")
    becomes(herder, "RUNNING", "RUNNING")


def test_a_stop_also_ends_what_has_failed(herder: StandaloneHerder) -> None:
    put_config(herder, step="fails")
    becomes(herder, "RUNNING", "FAILED")
    herder.stop_connector("c")
    assert states_of(herder) == ["STOPPED"]


def test_restarting_what_has_failed_leaves_the_rest_alone(
    herder: StandaloneHerder, heard: Heard
) -> None:
    put_config(herder, step="fails")
    becomes(herder, "RUNNING", "FAILED")
    heard.clear()
    shown = herder.restart_connector_and_tasks("c", only_failed=True, include_tasks=True)
    assert (shown.state, [task.state for task in shown.tasks]) == ("RUNNING", ["RESTARTING"])
    becomes(herder, "RUNNING", "FAILED")
    assert InstanceId("c") not in [instance for instance, _ in heard]
    assert (InstanceId("c", 0), State.RESTARTING) in [(i, status.state) for i, status in heard]


def test_restarting_everything(herder: StandaloneHerder) -> None:
    put_config(herder)
    becomes(herder, "RUNNING", "RUNNING")
    shown = herder.restart_connector_and_tasks("c", only_failed=False, include_tasks=True)
    assert (shown.state, [task.state for task in shown.tasks]) == ("RESTARTING", ["RESTARTING"])
    becomes(herder, "RUNNING", "RUNNING")


def test_unknown_names_are_told_in_javas_words(herder: StandaloneHerder) -> None:
    for ask, text in (
        (lambda: herder.connector_info("x"), "Connector x not found"),
        (lambda: herder.connector_config("x"), "Connector x not found"),
        (lambda: herder.connector_state("x"), "No status found for connector x"),
        (lambda: herder.task_state(TaskId("x", 1)), "No status found for task x-1"),
        (lambda: herder.pause_connector("x"), "Unknown connector x"),
        (lambda: herder.stop_connector("x"), "Unknown connector x"),
        (lambda: herder.delete_connector("x"), "Connector x not found"),
        (lambda: herder.connector_offsets("x"), "Connector x not found"),
        (lambda: herder.reset_offsets("x"), "Connector x not found"),
        (
            lambda: herder.restart_connector_and_tasks("x", only_failed=True, include_tasks=True),
            "Unknown connector: x",
        ),
    ):
        with pytest.raises(NotFound) as caught:
            ask()
        assert str(caught.value) == text
    put_config(herder)
    with pytest.raises(NotFound, match="Unknown task: c-7"):
        herder.restart_task(TaskId("c", 7))


def test_statuses_have_the_workers_and_the_plugins_name(herder: StandaloneHerder) -> None:
    put_config(herder)
    becomes(herder, "RUNNING", "RUNNING")
    state = herder.connector_state("c")
    assert (state.worker_id, state.version, state.type) == ("w", "7.1", "source")
    assert state.tasks[0].version == "7.1"
    assert herder.task_state(TaskId("c", 0)) == state.tasks[0]


def test_offsets_are_listed_altered_and_reset(
    herder: StandaloneHerder, store: MemoryOffsetStore
) -> None:
    put_config(herder)
    becomes(herder, "RUNNING", "RUNNING")
    with pytest.raises(BadRequest, match="must be in the STOPPED state"):
        herder.reset_offsets("c")
    herder.stop_connector("c")
    assert herder.connector_offsets("c") == [OffsetEntry({"p": 1}, {"o": 2})]
    message = herder.alter_offsets(
        "c", [OffsetEntry({"p": 1}, {"o": 5}), OffsetEntry({"p": 2}, {"o": 6})]
    )
    assert message == "The offsets for this connector have been altered successfully"
    assert store.get([b'["c",{"p":1}]'], Deadline(1)) == {b'["c",{"p":1}]': b'{"o":5}'}
    herder.alter_offsets("c", [OffsetEntry({"p": 2}, None)])
    assert herder.connector_offsets("c") == [OffsetEntry({"p": 1}, {"o": 5})]
    Gated.external_offsets = True
    assert herder.reset_offsets("c").startswith(
        "The Connect framework-managed offsets for this connector have been reset successfully."
    )
    assert herder.connector_offsets("c") == []


def test_a_connector_may_refuse_offsets_and_then_nothing_changes(
    herder: StandaloneHerder,
) -> None:
    put_config(herder)
    becomes(herder, "RUNNING", "RUNNING")
    herder.stop_connector("c")
    with pytest.raises(BadRequest, match="no offset 13"):
        herder.alter_offsets("c", [OffsetEntry({"p": 1}, {"o": 13})])
    with pytest.raises(BadRequest, match="need to be provided"):
        herder.alter_offsets("c", [])
    assert herder.connector_offsets("c") == [OffsetEntry({"p": 1}, {"o": 2})]


def test_topics_are_known_until_they_are_reset_or_the_connector_goes(
    herder: StandaloneHerder,
) -> None:
    put_config(herder)
    becomes(herder, "RUNNING", "RUNNING")
    assert herder.active_topics("c") == ["t-c"]
    herder.reset_active_topics("c")
    assert herder.active_topics("c") == []
    herder.restart_task(TaskId("c", 0))
    becomes(herder, "RUNNING", "RUNNING")
    assert herder.active_topics("c") == ["t-c"]
    herder.delete_connector("c")
    assert herder.active_topics("c") == []


def test_health_tells_what_was_done_last(herder: StandaloneHerder) -> None:
    put_config(herder)
    health = herder.health()
    assert not health.ready
    assert "completed was configuring connector c" in (health.stage or "")
    herder.set_ready()
    assert herder.health().ready


def test_plugins_and_their_keys(herder: StandaloneHerder) -> None:
    kinds = {info.kind for info in herder.plugins(connectors_only=False)}
    assert kinds == {"source", "transformation", "predicate", "converter", "header_converter"}
    (gated,) = herder.plugins(connectors_only=True)
    assert (gated.name, gated.kind, gated.version) == (f"{__name__}.Gated", "source", "7.1")
    names = [info.value.name for info in herder.plugin_config("RegexRouter")]
    assert names == ["regex", "replacement"]
    assert "tasks.max" in [info.value.name for info in herder.plugin_config("Gated")]
    with pytest.raises(NotFound, match=r"Unknown plugin Nope\."):
        herder.plugin_config("Nope")
    with pytest.raises(BadRequest, match=r"version range \[1,1\], available versions: \[7\.1\]"):
        herder.plugin_config("Gated", "1")


def test_a_worker_without_a_group_takes_nothing_from_others(herder: StandaloneHerder) -> None:
    with pytest.raises(ConnectError, match="does not support externally setting task"):
        herder.put_task_configs("c", lambda _: [], (None, None), b"[]")
    with pytest.raises(ConnectError, match="does not support exactly-once"):
        herder.fence_zombies("c", (None, None), b"")


@pytest.mark.parametrize("state", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_connector_that_never_ran_has_its_version_in_its_status(
    herder: StandaloneHerder, state: TargetState
) -> None:
    herder.put_connector_config(
        "c", {"connector.class": "Gated"}, allow_replace=False, initial_state=state
    )
    becomes(herder, state.value)
    assert herder.connector_state("c").version == "7.1"
