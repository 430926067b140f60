"""Encode and decode the records of the config topic.

Byte for byte Kafka Connect's (KafkaConfigBackingStore, 4.3.1). Keys are UTF-8 strings, values
schemaless JSON without blanks:

    connector-<name>             {"properties":{"k":"v",...}}; null deletes the connector
    task-<name>-<n>              {"properties":{...}}, valid after the next commit
    commit-<name>                {"tasks":N}
    target-state-<name>          {"state":"STARTED|PAUSED","state.v2":"STARTED|PAUSED|STOPPED"}
    tasks-fencing-<name>         {"task-count":N}
    session-key                  {"key":"<base64>","algorithm":"HmacSHA256","creation-timestamp":ms}
    restart-connector-<name>     {"include-tasks":true,"only-failed":false}
    logger-cluster-<namespace>   {"level":"DEBUG"}

Pure functions. `config_state` derives the cluster's state from the records.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect.data import json_codec
from connect.data.json_codec import JsonValue
from connect.storage.instance_id import InstanceId, State, TargetState, task_number

__all__ = [
    "ConfigRecord",
    "ConnectorConfigRecord",
    "LoggerLevel",
    "RestartRequest",
    "SessionKey",
    "TargetStateRecord",
    "TaskCommitRecord",
    "TaskConfigRecord",
    "TaskCountRecord",
    "UnusableRecord",
    "commit_key",
    "connector_key",
    "decode_record",
    "encode_config",
    "encode_logger_level",
    "encode_restart_request",
    "encode_session_key",
    "encode_target_state",
    "encode_task_commit",
    "encode_task_count",
    "logger_key",
    "restart_key",
    "session_key_key",
    "target_state_key",
    "task_count_key",
    "task_key",
]

_TARGET_STATE = "target-state-"
_CONNECTOR = "connector-"
_TASK = "task-"
_COMMIT = "commit-"
_RESTART = "restart-connector-"
_TASK_COUNT = "tasks-fencing-"
_SESSION_KEY = "session-key"
_LOGGER = "logger-cluster-"

# Java reads counts as longs and truncates them to ints.
_INT_MAX = 2_147_483_647


@dataclass(frozen=True, slots=True)
class ConnectorConfigRecord:
    """A connector's config. `config` None: the connector was deleted."""

    connector: str
    config: Mapping[str, str] | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TaskConfigRecord:
    """A task config, which is pending until its connector's next commit."""

    task: InstanceId
    config: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TaskCommitRecord:
    """A commit of the connector's earlier task configs. `tasks` None: the record has no number."""

    connector: str
    tasks: int | None


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """A connector's target state. `state` None: the target state is removed."""

    connector: str
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class TaskCountRecord:
    """The number of tasks for which zombies were fenced (KIP-618)."""

    connector: str
    tasks: int


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that signs requests between workers; `created_ms` since the epoch."""

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A restart of a connector, perhaps with its tasks (KIP-745).

    `only_failed` restricts it to FAILED instances.
    """

    connector: str
    only_failed: bool
    include_tasks: bool

    def wants_connector(self, state: State | str) -> bool:
        """Return whether a connector in this state is restarted."""
        return not self.only_failed or State(state) is State.FAILED

    def wants_task(self, state: State | str) -> bool:
        """Return whether a task in this state is restarted."""
        return self.include_tasks and (not self.only_failed or State(state) is State.FAILED)

    @property
    def impact(self) -> int:
        """The rank of the request by the amount it restarts.

        If two requests for a connector are pending, the one with the higher rank counts.
        """
        return 2 * (not self.only_failed) + self.include_tasks


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """The level of a logger namespace on all workers, as the user wrote it."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class UnusableRecord:
    """A record with an unknown key or invalid fields, as `reason` says. It is ignored."""

    reason: str


ConfigRecord = (
    ConnectorConfigRecord
    | TaskConfigRecord
    | TaskCommitRecord
    | TargetStateRecord
    | TaskCountRecord
    | SessionKey
    | RestartRequest
    | LoggerLevel
    | UnusableRecord
)


def connector_key(connector: str) -> bytes:
    return f"{_CONNECTOR}{connector}".encode()


def task_key(task: InstanceId) -> bytes:
    return f"{_TASK}{task.connector}-{task.task}".encode()


def commit_key(connector: str) -> bytes:
    return f"{_COMMIT}{connector}".encode()


def target_state_key(connector: str) -> bytes:
    return f"{_TARGET_STATE}{connector}".encode()


def task_count_key(connector: str) -> bytes:
    return f"{_TASK_COUNT}{connector}".encode()


def session_key_key() -> bytes:
    return _SESSION_KEY.encode()


def restart_key(connector: str) -> bytes:
    return f"{_RESTART}{connector}".encode()


def logger_key(namespace: str) -> bytes:
    return f"{_LOGGER}{namespace}".encode()


def encode_config(config: Mapping[str, str | None]) -> bytes:
    """Encode the config of a connector or a task, in map order."""
    return json_codec.encode({"properties": config})


def encode_target_state(state: TargetState) -> bytes:
    """Encode a target state. Workers older than KIP-875 do not know STOPPED and read PAUSED."""
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return json_codec.encode({"state": old.value, "state.v2": state.value})


def encode_task_commit(tasks: int) -> bytes:
    return json_codec.encode({"tasks": tasks})


def encode_task_count(tasks: int) -> bytes:
    return json_codec.encode({"task-count": tasks})


def encode_session_key(key: SessionKey) -> bytes:
    encoded = base64.b64encode(key.key).decode()
    return json_codec.encode(
        {"key": encoded, "algorithm": key.algorithm, "creation-timestamp": key.created_ms}
    )


def encode_restart_request(request: RestartRequest) -> bytes:
    return json_codec.encode(
        {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    )


def encode_logger_level(level: str) -> bytes:
    return json_codec.encode({"level": level})


def decode_record(key: bytes | None, value: bytes | None) -> ConfigRecord:
    """Decode a record. Returns `UnusableRecord` for keys and fields that Java would ignore.

    Raises `CorruptData` for a value that is not JSON; such a record does not count in the config
    offset. Properties with a null value are omitted.
    """
    content = None if value is None else json_codec.decode(value)
    if key is None:
        return UnusableRecord("a record has no key")
    name = key.decode(errors="replace")
    if name == _SESSION_KEY:
        return _session_key(content)
    for prefix, decode in _DECODERS:
        if name.startswith(prefix):
            return decode(name[len(prefix) :], content)
    return UnusableRecord(f"key {name!r} is unknown")


def _target_state(connector: str, content: JsonValue) -> ConfigRecord:
    if content is None:
        return TargetStateRecord(connector, None)
    key = f"{_TARGET_STATE}{connector}"
    if not isinstance(content, Mapping):
        return _not_an_object(key)
    text = content.get("state.v2")
    if not isinstance(text, str):
        text = content.get("state")
    try:
        return TargetStateRecord(connector, TargetState(text))
    except ValueError:
        return UnusableRecord(f"{key} has the unknown target state {text!r}")


def _connector_config(connector: str, content: JsonValue) -> ConfigRecord:
    if content is None:
        return ConnectorConfigRecord(connector, None)
    config = _properties(content)
    if config is None:
        return UnusableRecord(f"{_CONNECTOR}{connector} has no properties")
    return ConnectorConfigRecord(connector, config)


def _task_config(name: str, content: JsonValue) -> ConfigRecord:
    connector, dash, number = name.rpartition("-")
    task = task_number(number)
    if not dash or task is None:
        return UnusableRecord(f"key '{_TASK}{name}' does not name a task")
    config = _properties(content)
    if config is None:
        return UnusableRecord(f"{_TASK}{name} has no properties")
    return TaskConfigRecord(InstanceId(connector, task), config)


def _task_commit(connector: str, content: JsonValue) -> ConfigRecord:
    # A commit without a number still has an effect: see the state's rule for unknown connectors.
    return TaskCommitRecord(connector, _count(content, "tasks"))


def _restart(connector: str, content: JsonValue) -> ConfigRecord:
    if not isinstance(content, Mapping):
        return _not_an_object(f"{_RESTART}{connector}")
    return RestartRequest(
        connector,
        only_failed=content.get("only-failed") is True,
        include_tasks=content.get("include-tasks") is True,
    )


def _task_count(connector: str, content: JsonValue) -> ConfigRecord:
    tasks = _count(content, "task-count")
    if tasks is None:
        return UnusableRecord(f"{_TASK_COUNT}{connector} has no task-count")
    return TaskCountRecord(connector, tasks)


def _session_key(content: JsonValue) -> ConfigRecord:
    if not isinstance(content, Mapping):
        return _not_an_object(_SESSION_KEY)
    encoded, algorithm = content.get("key"), content.get("algorithm")
    created = content.get("creation-timestamp")
    if (
        not isinstance(encoded, str)
        or not isinstance(algorithm, str)
        or not isinstance(created, int)
        or isinstance(created, bool)
    ):
        return UnusableRecord(f"{_SESSION_KEY} lacks a key, an algorithm or a creation-timestamp")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return UnusableRecord(f"{_SESSION_KEY} has a key that is not base64")
    return SessionKey(key, algorithm, created)


def _logger(namespace: str, content: JsonValue) -> ConfigRecord:
    level = content.get("level") if isinstance(content, Mapping) else None
    if not isinstance(level, str):
        return UnusableRecord(f"{_LOGGER}{namespace} has no level")
    return LoggerLevel(namespace, level)


# In Java's order. No prefix is the beginning of another.
_DECODERS: tuple[tuple[str, Callable[[str, JsonValue], ConfigRecord]], ...] = (
    (_TARGET_STATE, _target_state),
    (_CONNECTOR, _connector_config),
    (_TASK, _task_config),
    (_COMMIT, _task_commit),
    (_RESTART, _restart),
    (_TASK_COUNT, _task_count),
    (_LOGGER, _logger),
)


def _not_an_object(key: str) -> UnusableRecord:
    return UnusableRecord(f"the value of {key} is not a JSON object")


def _properties(content: JsonValue) -> dict[str, str] | None:
    properties = content.get("properties") if isinstance(content, Mapping) else None
    if not isinstance(properties, Mapping):
        return None
    return {
        name: value if isinstance(value, str) else json_codec.encode(value).decode()
        for name, value in properties.items()
        if value is not None
    }


def _count(content: JsonValue, name: str) -> int | None:
    count = content.get(name) if isinstance(content, Mapping) else None
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _INT_MAX:
        return None
    return count
