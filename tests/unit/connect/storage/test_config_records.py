"""The bytes of the config topic, against what Kafka Connect 4.3.1 writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData
from connect.storage import config_records as records
from connect.storage.config_records import (
    ConfigRecord,
    ConnectorConfigRecord,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetStateRecord,
    TaskCommitRecord,
    TaskConfigRecord,
    TaskCountRecord,
    UnusableRecord,
    decode_record,
)
from connect.storage.instance_id import InstanceId, State, TargetState

KEY = SessionKey(bytes(range(32)), "HmacSHA256", 1_700_000_000_000)
KEY_JSON = (
    b'{"key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","algorithm":"HmacSHA256",'
    b'"creation-timestamp":1700000000000}'
)
RESTART = RestartRequest("c", only_failed=False, include_tasks=True)

GOLDEN: list[tuple[bytes, bytes | None, ConfigRecord]] = [
    (
        b"connector-a-b",
        b'{"properties":{"name":"a-b","tasks.max":"2"}}',
        ConnectorConfigRecord("a-b", {"name": "a-b", "tasks.max": "2"}),
    ),
    (b"connector-c", None, ConnectorConfigRecord("c", None)),
    (b"task-a-b-12", b'{"properties":{}}', TaskConfigRecord(InstanceId("a-b", 12), {})),
    (b"commit-c", b'{"tasks":0}', TaskCommitRecord("c", 0)),
    (
        b"target-state-c",
        b'{"state":"STARTED","state.v2":"STARTED"}',
        TargetStateRecord("c", TargetState.STARTED),
    ),
    (
        b"target-state-c",
        b'{"state":"PAUSED","state.v2":"STOPPED"}',
        TargetStateRecord("c", TargetState.STOPPED),
    ),
    (b"target-state-c", None, TargetStateRecord("c", None)),
    (b"tasks-fencing-c", b'{"task-count":3}', TaskCountRecord("c", 3)),
    (b"session-key", KEY_JSON, KEY),
    (b"restart-connector-c", b'{"include-tasks":true,"only-failed":false}', RESTART),
    (b"logger-cluster-org.x", b'{"level":"debug"}', LoggerLevel("org.x", "debug")),
]


def encoded(record: ConfigRecord) -> tuple[bytes, bytes | None]:
    """The key and value that a store writes for a record."""
    match record:
        case ConnectorConfigRecord(name, config):
            value = None if config is None else records.encode_config(config)
            return records.connector_key(name), value
        case TaskConfigRecord(task, config):
            return records.task_key(task), records.encode_config(config)
        case TaskCommitRecord(name, int(tasks)):
            return records.commit_key(name), records.encode_task_commit(tasks)
        case TargetStateRecord(name, state):
            value = None if state is None else records.encode_target_state(state)
            return records.target_state_key(name), value
        case TaskCountRecord(name, tasks):
            return records.task_count_key(name), records.encode_task_count(tasks)
        case SessionKey():
            return records.session_key_key(), records.encode_session_key(record)
        case RestartRequest(name):
            return records.restart_key(name), records.encode_restart_request(record)
        case LoggerLevel(namespace, level):
            return records.logger_key(namespace), records.encode_logger_level(level)
    raise AssertionError(record)


@pytest.mark.parametrize(("key", "value", "record"), GOLDEN)
def test_records_have_javas_bytes(key: bytes, value: bytes | None, record: ConfigRecord) -> None:
    assert encoded(record) == (key, value)
    assert decode_record(key, value) == record


def test_a_config_keeps_its_order_and_says_null_where_there_is_no_value() -> None:
    config = {"name": 'é"/\x01', "x": None, "tasks.max": "2"}
    assert records.encode_config(config).decode() == (
        '{"properties":{"name":"é\\"/\\u0001","x":null,"tasks.max":"2"}}'
    )


def test_properties_without_a_value_are_read_as_absent_and_others_as_text() -> None:
    value = b'{"properties":{"a":null,"b":5,"c":true,"d":"x"}}'
    expected = {"b": "5", "c": "true", "d": "x"}
    assert decode_record(b"connector-c", value) == ConnectorConfigRecord("c", expected)


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (b'{"state":"PAUSED"}', TargetState.PAUSED),
        (b'{"state":"STARTED","state.v2":null}', TargetState.STARTED),
        (b'{"state":"STARTED","state.v2":7}', TargetState.STARTED),
        (b'{"state":"STARTED","state.v2":"STOPPED"}', TargetState.STOPPED),
        (b'{"state.v2":"PAUSED"}', TargetState.PAUSED),
    ],
)
def test_the_newer_field_of_a_target_state_wins_where_it_is_text(
    value: bytes, state: TargetState
) -> None:
    assert decode_record(b"target-state-c", value) == TargetStateRecord("c", state)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"nobody-knows", b"{}"),
        (b"session-key-2", KEY_JSON),
        (b"connector-c", b"[]"),
        (b"connector-c", b'{"properties":[]}'),
        (b"connector-c", b"{}"),
        (b"task-c-0", None),
        (b"task-c-0", b'{"properties":7}'),
        (b"task-c-x", b'{"properties":{}}'),
        (b"task-0", b'{"properties":{}}'),
        (b"task-c-99999999999", b'{"properties":{}}'),
        (b"target-state-c", b"7"),
        (b"target-state-c", b"{}"),
        (b"target-state-c", b'{"state":"RUNNING"}'),
        (b"target-state-c", b'{"state":"STARTED","state.v2":"RUNNING"}'),
        (b"tasks-fencing-c", None),
        (b"tasks-fencing-c", b'{"task-count":"3"}'),
        (b"tasks-fencing-c", b'{"task-count":3.0}'),
        (b"tasks-fencing-c", b'{"task-count":true}'),
        (b"session-key", None),
        (b"session-key", b'{"key":"AA==","algorithm":"HmacSHA256"}'),
        (b"session-key", b'{"key":"A","algorithm":"HmacSHA256","creation-timestamp":1}'),
        (b"session-key", b'{"key":"AA==","algorithm":7,"creation-timestamp":1}'),
        (b"restart-connector-c", None),
        (b"restart-connector-c", b"[]"),
        (b"logger-cluster-x", None),
        (b"logger-cluster-x", b'{"level":7}'),
    ],
)
def test_what_makes_no_sense_is_unusable_and_no_error(key: bytes | None, value: bytes) -> None:
    assert isinstance(decode_record(key, value), UnusableRecord)


@pytest.mark.parametrize(
    "value", [None, b"{}", b'{"tasks":"2"}', b'{"tasks":-1}', b'{"tasks":2.0}']
)
def test_a_commit_without_a_number_is_still_a_commit(value: bytes | None) -> None:
    assert decode_record(b"commit-c", value) == TaskCommitRecord("c", None)


def test_a_restart_request_is_for_the_connector_alone_where_it_does_not_say() -> None:
    expected = RestartRequest("c", only_failed=False, include_tasks=False)
    value = b'{"include-tasks":"yes","only-failed":1}'
    assert decode_record(b"restart-connector-c", b"{}") == expected
    assert decode_record(b"restart-connector-c", value) == expected


def test_the_value_is_read_first_also_of_records_nobody_knows() -> None:
    with pytest.raises(CorruptData):
        decode_record(b"nobody-knows", b"{")


def test_empty_bytes_are_null_as_in_java() -> None:
    assert decode_record(b"connector-c", b"") == ConnectorConfigRecord("c", None)


def test_no_secret_is_printed() -> None:
    config = ConnectorConfigRecord("c", {"password": "hush"})
    task = TaskConfigRecord(InstanceId("c", 0), {"password": "hush"})
    assert "hush" not in f"{config}{task}"
    assert repr(KEY.key) not in repr(KEY)


@pytest.mark.parametrize(
    ("only_failed", "include_tasks", "impact", "connector", "task"),
    [
        (True, False, 0, False, False),
        (True, True, 1, False, False),
        (False, False, 2, True, False),
        (False, True, 3, True, True),
    ],
)
def test_what_a_restart_of_something_that_runs_means(
    only_failed: bool, include_tasks: bool, impact: int, connector: bool, task: bool
) -> None:
    request = RestartRequest("c", only_failed=only_failed, include_tasks=include_tasks)
    assert request.impact == impact
    assert request.wants_connector(State.RUNNING) is connector
    assert request.wants_task("RUNNING") is task
    assert request.wants_connector("FAILED")
    assert request.wants_task(State.FAILED) is include_tasks


names = st.text(min_size=1).filter(lambda name: name.encode(errors="ignore").decode() == name)


@given(names, st.integers(0, 2**31 - 1), st.dictionaries(names, names))
def test_what_is_written_is_read_back(name: str, task: int, config: dict[str, str]) -> None:
    instance = InstanceId(name, task)
    key, value = records.task_key(instance), records.encode_config(config)
    assert decode_record(key, value) == TaskConfigRecord(instance, config)


@given(
    st.binary(max_size=30),
    st.recursive(
        st.none() | st.integers() | st.text() | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
)
def test_no_json_is_an_error_under_any_key(key: bytes, value: object) -> None:
    data = json.dumps(value).encode()
    for prefix in (b"", b"connector-", b"task-x-", b"commit-", b"target-state-", b"session-key"):
        decode_record(prefix + key, data)
