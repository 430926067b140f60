"""The bytes of the status topic, and the rules by which statuses replace each other."""

from __future__ import annotations

import pytest

from connect.storage.instance_id import InstanceId, State
from connect.storage.status_records import (
    InstanceStatus,
    StatusTable,
    TopicStatus,
    encode_status,
    encode_topic_status,
    status_key,
    topic_key,
)

CONNECTOR, TASK = InstanceId("a-b"), InstanceId("a-b", 12)
RUNNING = InstanceStatus(State.RUNNING, "host:8083", 3, None, "1.2.3")
RUNNING_JSON = (
    b'{"state":"RUNNING","trace":null,"worker_id":"host:8083","generation":3,"version":"1.2.3"}'
)
TOPIC = TopicStatus("tp", "c", 0, 123)
TOPIC_JSON = b'{"topic":{"name":"tp","connector":"c","task":0,"discoverTimestamp":123}}'


def status(state: State, worker: str = "w", generation: int = 5) -> InstanceStatus:
    return InstanceStatus(state, worker, generation)


def test_keys_are_javas() -> None:
    assert status_key(CONNECTOR) == b"status-connector-a-b"
    assert status_key(TASK) == b"status-task-a-b-12"
    assert topic_key("c", "tp") == b"status-topic-tp:connector-c"


def test_values_are_javas() -> None:
    assert encode_status(RUNNING) == RUNNING_JSON
    assert encode_status(InstanceStatus(State.FAILED, "h:1", 0, 'é"\n\tat')) == (
        '{"state":"FAILED","trace":"é\\"\\n\\tat","worker_id":"h:1","generation":0,'
        '"version":null}'.encode()
    )
    assert encode_topic_status(TOPIC) == TOPIC_JSON


def test_destroyed_is_the_end_of_a_status() -> None:
    assert encode_status(status(State.DESTROYED)) is None


@pytest.mark.parametrize("instance", [CONNECTOR, TASK])
def test_what_is_written_is_read_back(instance: InstanceId) -> None:
    table = StatusTable()
    assert table.apply(status_key(instance), RUNNING_JSON) is None
    assert table.get(instance) == RUNNING


def test_older_workers_write_no_version_and_newer_ones_may_write_more() -> None:
    table = StatusTable()
    old = b'{"state":"PAUSED","trace":null,"worker_id":"w","generation":5}'
    new = b'{"state":"PAUSED","trace":null,"worker_id":"w","generation":5,"mood":"good"}'
    for value in (old, new):
        table.apply(status_key(TASK), value)
        assert table.get(TASK) == status(State.PAUSED)


def test_a_tombstone_ends_a_status_and_says_whose() -> None:
    table = StatusTable()
    table.put(TASK, RUNNING)
    assert table.apply(status_key(TASK), None) == TASK
    assert table.get(TASK) is None


def test_a_connectors_tombstone_ends_its_tasks() -> None:
    table = StatusTable()
    table.put(CONNECTOR, RUNNING)
    table.put(TASK, RUNNING)
    assert table.apply(status_key(CONNECTOR), None) == CONNECTOR
    assert (table.get(TASK), table.connectors()) == (None, set())


def test_a_connector_is_known_by_the_status_of_a_task() -> None:
    table = StatusTable()
    table.put(TASK, RUNNING)
    assert table.connectors() == {TASK.connector}
    table.apply(status_key(TASK), None)
    assert table.connectors() == set()


@pytest.mark.parametrize(
    ("current", "generation", "taken"),
    [
        (State.RUNNING, 4, False),
        (State.RUNNING, 5, False),
        (State.RUNNING, 6, True),
        (State.FAILED, 4, True),
        (None, 4, True),
    ],
)
def test_a_late_unassigned_does_not_hide_a_task_that_runs(
    current: State | None, generation: int, taken: bool
) -> None:
    table = StatusTable()
    before = None if current is None else status(current, generation=5)
    if before is not None:
        table.put(TASK, before)
    late = status(State.UNASSIGNED, "other", generation)
    table.apply(status_key(TASK), encode_status(late))
    assert table.get(TASK) == (late if taken else before)


def test_a_connector_that_is_unassigned_is_taken_at_its_word() -> None:
    table = StatusTable()
    table.put(CONNECTOR, status(State.RUNNING))
    late = status(State.UNASSIGNED, "other", 4)
    table.apply(status_key(CONNECTOR), encode_status(late))
    assert table.get(CONNECTOR) == late


@pytest.mark.parametrize(
    ("worker", "generation", "allowed"),
    [("w", 4, True), ("other", 5, True), ("other", 6, True), ("other", 4, False)],
)
def test_a_safe_write_does_not_overwrite_who_came_later(
    worker: str, generation: int, allowed: bool
) -> None:
    table = StatusTable()
    table.put(TASK, status(State.RUNNING, "w", 5))
    assert table.may_write_safely(TASK, status(State.FAILED, worker, generation)) is allowed


def test_topics_are_known_by_connector() -> None:
    table = StatusTable()
    table.apply(topic_key("c", "tp"), TOPIC_JSON)
    assert table.topics_of("c") == {"tp": TOPIC}
    assert table.topics_of("tp") == {}
    table.apply(topic_key("c", "tp"), None)
    table.apply(topic_key("nobody", "tp"), None)
    assert table.topics_of("c") == {}


def test_a_connectors_name_may_have_colons() -> None:
    table = StatusTable()
    key = topic_key("c:connector-d", "tp")
    table.apply(key, TOPIC_JSON)
    assert list(table.topics_of("c:connector-d")) == ["tp"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, RUNNING_JSON),
        (b"whatever", RUNNING_JSON),
        (b"status-connector-", RUNNING_JSON),
        (b"status-task-c", RUNNING_JSON),
        (b"status-task-c-x", RUNNING_JSON),
        (b"status-task-c-0", b"{"),
        (b"status-task-c-0", b"[]"),
        (b"status-task-c-0", b"{}"),
        (b"status-task-c-0", b'{"state":"SLEEPING","worker_id":"w","generation":1}'),
        (b"status-task-c-0", b'{"state":"RUNNING","worker_id":"w","generation":"1"}'),
        (b"status-task-c-0", b'{"state":"RUNNING","worker_id":"w","generation":1.0}'),
        (b"status-task-c-0", b'{"state":"RUNNING","worker_id":7,"generation":1}'),
        (b"status-topic-tp", TOPIC_JSON),
        (b"status-topic-:connector-c", TOPIC_JSON),
        (b"status-topic-tp:connector-", TOPIC_JSON),
        (b"status-topic-tp:connector-c", b"{}"),
        (b"status-topic-tp:connector-c", b'{"topic":{"name":"tp","connector":"c"}}'),
    ],
)
def test_what_makes_no_sense_changes_nothing(key: bytes | None, value: bytes) -> None:
    table = StatusTable()
    table.put(InstanceId("c", 0), RUNNING)
    assert table.apply(key, value) is None
    assert table.tasks_of("c") == {0: RUNNING}
    assert table.get(CONNECTOR) is None
    assert table.topics_of("c") == {}
