"""New task configs in a group: tasks that only get more to do go on, all others end first."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import ClassVar

import pytest

from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.metrics.registry import MetricRegistry
from connect.plugin import PartitionHealth, StoredOffset, TransferTask
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.states import InstanceId
from connect.runtime.work.running_work import RunningWork
from connect.runtime.work.task_run import TaskRun
from connect.runtime.worker import Worker
from connect.storage.config_records import (
    ConfigRecord,
    ConnectorConfigRecord,
    TaskCommitRecord,
    TaskConfigRecord,
)
from connect.storage.config_state import ClusterConfigState, ConfigStateBuilder
from connect.storage.offset_codec import encode_key, encode_value
from tests.support.waiting import wait_until
from tests.support.workers.memory_offset_store import MemoryOffsetStore
from tests.support.workers.plugins import LaneConnector

BYTES = "ByteArrayConverter"
TASK = InstanceId("c", 0)


class Lanes(TransferTask):
    """Takes more lanes while it runs, unless `stubborn`; tells what happened."""

    told: ClassVar[list[str]] = []
    stubborn: ClassVar[bool] = False
    exactly_once: ClassVar[bool] = False

    @classmethod
    def only_adds(cls, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        return set(before["lanes"]) <= set(after["lanes"])

    @classmethod
    def grows_exactly_once(cls) -> bool:
        return cls.exactly_once

    def start(self, config: Mapping[str, str]) -> None:
        self._awake = threading.Event()
        self.told.append(f"start {config['lanes']}{config.get('rate', '')}")

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        self.told.append(f"offered {config['lanes']}{config.get('rate', '')}")
        return not self.stubborn

    def step(self, timeout: float) -> None:
        self._awake.wait(timeout)
        self._awake.clear()

    def wake(self) -> None:
        self._awake.set()

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        nothing: Future[list[StoredOffset]] = Future()
        nothing.set_result([])
        return nothing

    def committed(self) -> None:
        """Nothing was stored."""

    def pause(self) -> None:
        """Moves nothing."""

    def resume(self) -> None:
        """Moves nothing."""

    def drain(self, deadline: Deadline) -> None:
        """Nothing is under way."""

    def stop(self) -> None:
        self.told.append("stop")

    def health(self) -> list[PartitionHealth]:
        return []


class LanesConnector(LaneConnector):
    @classmethod
    def live_keys(cls) -> frozenset[str]:
        return frozenset({"rate"})

    def task_class(self) -> type[TransferTask]:
        return Lanes


def configs(*lanes: str, connector: Mapping[str, str] | None = None) -> ClusterConfigState:
    """A committed state with a task for each of `lanes`."""
    config = {"connector.class": "Lanes", "name": "c", "tasks.max": "9", **(connector or {})}
    own = f"{Lanes.__module__}.{Lanes.__qualname__}"
    records: list[ConfigRecord] = [ConnectorConfigRecord("c", config)]
    for number, text in enumerate(lanes):
        task = {"task.class": own, "lanes": text}
        records.append(TaskConfigRecord(InstanceId("c", number), task))
    records.append(TaskCommitRecord("c", len(lanes)))
    builder = ConfigStateBuilder()
    for offset, record in enumerate(records):
        builder.apply(offset, record)
    return builder.snapshot()


@pytest.fixture
def worker() -> Worker:
    plugins = PluginRegistry(discover=False)
    plugins.register(LanesConnector)
    props = {
        "bootstrap.servers": "127.0.0.1:1",
        "offset.storage.topic": "unused",
        "key.converter": BYTES,
        "value.converter": BYTES,
    }
    return Worker(
        WorkerConfig.from_properties(props),
        plugins,
        MetricRegistry(),
        worker_id="w",
        offset_store=MemoryOffsetStore(),
    )


@pytest.fixture
def run() -> TaskRun | None:
    """Of tasks that write exactly once."""
    return None


@pytest.fixture
def work(worker: Worker, run: TaskRun | None) -> Iterator[RunningWork]:
    Lanes.told, Lanes.stubborn, Lanes.exactly_once = [], False, False
    opened = RunningWork(
        worker,
        lambda wait, command: None,
        ClusterConfigState,
        lambda name: None,
        lambda name: None,
        lambda task: run,
    )
    yield opened
    opened.end_all(Deadline(5.0))


def begin(work: RunningWork, state: ClusterConfigState) -> None:
    work.begin_tasks([TASK], state)
    tells(["start ab"])


def tells(expected: Sequence[str]) -> None:
    wait_until(lambda: Lanes.told == list(expected), 5.0, f"{expected}, not {Lanes.told}")


def test_a_task_that_only_gets_more_goes_on_and_is_offered_it_later(work: RunningWork) -> None:
    begin(work, configs("ab"))
    more = configs("abc")
    assert work.renewal.outdated("c", more) == []
    assert Lanes.told == ["start ab"]
    work.renewal.grow(more)
    tells(["start ab", "offered abc"])
    assert work.renewal.outdated("c", more) == []
    work.renewal.grow(more)
    assert Lanes.told == ["start ab", "offered abc"]


def test_a_task_that_gives_something_up_ends_first(work: RunningWork) -> None:
    begin(work, configs("ab"))
    assert work.renewal.outdated("c", configs("ac")) == [TASK]
    assert work.renewal.outdated("c", configs()) == [TASK]


def test_a_task_ends_that_its_connector_has_no_more(work: RunningWork) -> None:
    """Its config is still there to be read."""
    state = configs("ab")
    begin(work, state)
    gone = replace(state, task_counts={"c": 0})
    assert work.renewal.outdated("c", gone) == [TASK]


def test_a_task_of_a_changed_connector_ends_first(work: RunningWork) -> None:
    begin(work, configs("ab"))
    assert work.renewal.outdated("c", configs("abc", connector={"changed": "yes"})) == [TASK]


def test_a_task_that_does_not_take_more_is_restarted_with_it(work: RunningWork) -> None:
    Lanes.stubborn = True
    begin(work, configs("ab"))
    assert work.renewal.outdated("c", configs("abc")) == []
    work.renewal.grow(configs("abc"))
    tells(["start ab", "offered abc", "stop", "start abc"])


def test_what_was_to_be_added_counts_no_more_once_it_is_given_back(work: RunningWork) -> None:
    begin(work, configs("ab"))
    assert work.renewal.outdated("c", configs("abc")) == []
    assert work.renewal.outdated("c", configs("ab")) == []
    work.renewal.grow(configs("ab"))
    assert Lanes.told == ["start ab"]


def rate(text: str) -> dict[str, str]:
    return {"rate": text}


def test_a_task_takes_live_values_of_its_connector_in_place(work: RunningWork) -> None:
    begin(work, configs("ab"))
    faster = configs("ab", connector=rate("9"))
    assert work.renewal.outdated("c", faster) == []
    work.renewal.take_live(faster)
    tells(["start ab", "offered ab9"])
    work.renewal.take_live(faster)
    work.renewal.take_live(configs("ab"))
    tells(["start ab", "offered ab9", "offered ab"])


def test_a_task_begins_with_its_connectors_live_values(work: RunningWork) -> None:
    work.begin_tasks([TASK], configs("ab", connector=rate("9")))
    tells(["start ab9"])


def test_what_is_added_leaves_live_values_as_they_are(work: RunningWork) -> None:
    work.begin_tasks([TASK], configs("ab", connector=rate("9")))
    tells(["start ab9"])
    more = configs("abc", connector=rate("8"))
    assert work.renewal.outdated("c", more) == []
    work.renewal.grow(more)
    work.renewal.take_live(more)
    tells(["start ab9", "offered abc9", "offered abc8"])


def test_a_task_that_does_not_take_live_values_is_restarted_with_them(work: RunningWork) -> None:
    Lanes.stubborn = True
    begin(work, configs("ab"))
    work.renewal.take_live(configs("ab", connector=rate("9")))
    tells(["start ab", "offered ab9", "stop", "start ab9"])


def test_other_changes_of_the_connector_are_not_taken_in_place(work: RunningWork) -> None:
    begin(work, configs("ab"))
    both = configs("ab", connector={**rate("9"), "changed": "yes"})
    work.renewal.take_live(both)
    assert work.renewal.outdated("c", both) == [TASK]
    assert Lanes.told == ["start ab"]


def test_a_task_that_stands_still_takes_live_values_when_it_goes_on(work: RunningWork) -> None:
    begin(work, configs("ab"))
    assert work.freeze([TASK]) == {TASK}
    work.renewal.take_live(configs("ab", connector=rate("9")))
    assert Lanes.told == ["start ab"]
    work.thaw([TASK])
    work.renewal.take_live(configs("ab", connector=rate("9")))
    tells(["start ab", "offered ab9"])


def test_a_frozen_task_that_is_revoked_stores_no_offsets(
    work: RunningWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may have run it meanwhile, and stored newer ones."""
    monkeypatch.setattr(Lanes, "drain", lambda self, deadline: self.told.append("drained"))
    begin(work, configs("ab"))
    assert work.freeze([TASK]) == {TASK}
    work.end_tasks([TASK])
    tells(["start ab", "stop"])


def test_a_connector_hears_of_no_change_of_live_values(work: RunningWork) -> None:
    first = configs("ab", connector={"topic": "t", "lanes": "a"})
    work.connectors.begin("c", first).result(5.0)
    host = work.connectors.host_of("c")
    assert host is not None
    faster = configs("ab", connector={"topic": "t", "lanes": "a", "rate": "9"})
    assert work.connectors.keeps_running("c", faster)
    assert work.connectors.config_of("c")["rate"] == "9"
    assert work.connectors.host_of("c") is host
    assert not work.connectors.keeps_running("c", faster), "put again as it is"
    other = configs("ab", connector={"topic": "u", "lanes": "a", "rate": "9"})
    assert not work.connectors.keeps_running("c", other)


def test_a_connector_knows_the_tasks_that_there_are(work: RunningWork) -> None:
    named = {"topic": "t", "lanes": "a"}
    work.connectors.begin("c", configs("ab", "d", connector=named)).result(5.0)
    host = work.connectors.host_of("c")
    assert host is not None
    context = host.connector.context
    assert [config["lanes"] for config in context.committed_tasks] == ["ab", "d"]


def test_a_connector_knows_its_stored_offsets_unless_they_have_a_topic_of_their_own(
    work: RunningWork, worker: Worker
) -> None:
    key, value = encode_key("c", {"p": 1}), encode_value({"o": 7})
    worker.offsets.set({key: value}).result(5.0)
    for own, expected in (({}, [{"o": 7}, None]), ({"offsets.storage.topic": "t"}, [None, None])):
        config = {"topic": "t", "lanes": "a", **own}
        host = worker.make_connector(
            "c", {"connector.class": "Lanes", "name": "c", **config}, lambda: None
        )
        host.start({"name": "c", **config}).result(5.0)
        assert host.connector.context.stored_offsets([{"p": 1}, {"p": 2}]) == expected
        host.request_stop()


def checked_run() -> TaskRun:
    plan = ExactlyOncePlan("id", lambda: None, lambda: None)
    return TaskRun(Future, lambda: None, lambda _: plan)


@pytest.mark.parametrize("run", [checked_run()])
def test_a_task_that_writes_exactly_once_goes_on_where_it_can_and_has_begun(
    work: RunningWork, run: TaskRun
) -> None:
    begin(work, configs("ab"))
    more = configs("abc")
    assert work.renewal.outdated("c", more) == [TASK]
    Lanes.exactly_once = True
    # Its checks would find that there are other configs now, and it would fail.
    assert work.renewal.outdated("c", more) == [TASK]
    run.begun = True
    assert work.renewal.outdated("c", more) == []
    assert work.renewal.outdated("c", configs("ac")) == [TASK]
