"""What the config topic adds up to: Kafka Connect's read-back rules, one table after the other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from connect.storage.config_state import (
    EMPTY_STATE,
    ClusterConfigState,
    ConfigEvent,
    ConfigStateBuilder,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
)
from connect.storage.instance_id import InstanceId, TargetState

C0, C1, C2 = (InstanceId("c", task) for task in range(3))
CREATED = ConnectorConfigRecord("c", {"v": "1"})
CHANGED = ConnectorConfigRecord("c", {"v": "2"})
DELETED = ConnectorConfigRecord("c", None)
KEY = SessionKey(b"k" * 32, "HmacSHA256", 1)
RESTART = RestartRequest("c", only_failed=False, include_tasks=True)
LOGGER = LoggerLevel("x", "DEBUG")


def task(number: int, version: str = "1") -> TaskConfigRecord:
    return TaskConfigRecord(InstanceId("c", number), {"v": version})


def commit(tasks: int | None) -> TaskCommitRecord:
    return TaskCommitRecord("c", tasks)


def target(state: TargetState | None) -> TargetStateRecord:
    return TargetStateRecord("c", state)


STARTED, PAUSED, STOPPED = (target(state) for state in TargetState)


def state_after(*records: ConfigRecord) -> ClusterConfigState:
    builder = ConfigStateBuilder()
    for offset, record in enumerate(records):
        builder.apply(offset, record)
    return builder.snapshot()


def last_events(*records: ConfigRecord) -> tuple[ConfigEvent, ...]:
    """What the last of the records says, when all are news."""
    builder = ConfigStateBuilder()
    builder.startup_complete()
    events: tuple[ConfigEvent, ...] = ()
    for offset, record in enumerate(records):
        events = builder.apply(offset, record)
    return events


def test_nothing_read_is_the_empty_state() -> None:
    assert state_after() == EMPTY_STATE
    assert EMPTY_STATE.offset == -1


def test_the_offset_is_one_more_than_the_last_records() -> None:
    builder = ConfigStateBuilder()
    builder.apply(0, CREATED)
    builder.apply(7, UnusableRecord("whatever"))
    assert builder.snapshot().offset == 8


def test_a_snapshot_never_changes() -> None:
    builder = ConfigStateBuilder()
    builder.apply(0, CREATED)
    before = builder.snapshot()
    assert builder.snapshot() is before
    later: list[ConfigRecord] = [CHANGED, task(0), commit(1), PAUSED, KEY]
    for offset, record in enumerate(later):
        builder.apply(offset, record)
    assert before.connector_config("c") == {"v": "1"}
    assert (before.tasks("c"), before.session_key) == ([], None)
    assert before.target_state("c") is TargetState.STARTED


EVENTS: list[tuple[str, list[ConfigRecord], tuple[ConfigEvent, ...]]] = [
    ("new connector", [CREATED], (ConnectorConfigUpdated("c"),)),
    ("changed connector", [CREATED, CHANGED], (ConnectorConfigUpdated("c"),)),
    ("same config again", [CREATED, CREATED], (ConnectorConfigUpdated("c"),)),
    ("deleted connector", [CREATED, DELETED], (ConnectorConfigRemoved("c"),)),
    ("deleted before it was read", [DELETED], (ConnectorConfigRemoved("c"),)),
    ("task config", [CREATED, task(0)], ()),
    ("commit", [CREATED, task(0), task(1), commit(2)], (TaskConfigsUpdated((C0, C1)),)),
    ("commit without configs", [CREATED, commit(0)], (TaskConfigsUpdated(()),)),
    ("incomplete commit", [CREATED, task(1), commit(2)], (TaskConfigsUpdated(()),)),
    ("commit of nobody", [task(0), commit(1)], ()),
    ("commit without a number", [CREATED, task(0), commit(None)], ()),
    ("target state", [CREATED, PAUSED], (TargetStateChanged("c"),)),
    ("the target state it has", [CREATED, STARTED], ()),
    ("target state of nobody", [PAUSED], ()),
    ("target state removed", [CREATED, PAUSED, target(None)], ()),
    ("session key", [KEY], (KEY,)),
    ("restart", [RESTART], (RESTART,)),
    ("logger level", [LOGGER], (LOGGER,)),
    ("task count", [CREATED, TaskCountRecord("c", 1)], ()),
    ("nonsense", [UnusableRecord("whatever")], ()),
]


@pytest.mark.parametrize(("records", "events"), [e[1:] for e in EVENTS], ids=[e[0] for e in EVENTS])
def test_what_listeners_hear(records: list[ConfigRecord], events: tuple[ConfigEvent, ...]) -> None:
    assert last_events(*records) == events


@pytest.mark.parametrize("records", [e[1] for e in EVENTS], ids=[e[0] for e in EVENTS])
def test_nothing_is_news_before_the_startup_is_complete(records: list[ConfigRecord]) -> None:
    builder = ConfigStateBuilder()
    for offset, record in enumerate(records):
        assert builder.apply(offset, record) == ()


def test_what_was_read_at_startup_is_there_afterwards_but_old_restarts_are_gone() -> None:
    builder = ConfigStateBuilder()
    builder.apply(0, CREATED)
    builder.apply(1, RESTART)
    builder.startup_complete()
    assert builder.snapshot().contains("c")
    assert builder.apply(2, PAUSED) == (TargetStateChanged("c"),)


TARGET_STATES: list[tuple[str, list[ConfigRecord], TargetState | None]] = [
    ("none", [], None),
    ("implied", [CREATED], TargetState.STARTED),
    ("given before", [STOPPED, CREATED], TargetState.STOPPED),
    ("given after", [CREATED, PAUSED], TargetState.PAUSED),
    ("kept by a new config", [CREATED, PAUSED, CHANGED], TargetState.PAUSED),
    ("removed, still there", [CREATED, PAUSED, target(None)], TargetState.STARTED),
    ("kept when only the config went", [CREATED, PAUSED, DELETED], TargetState.PAUSED),
    ("deleted", [CREATED, PAUSED, DELETED, target(None)], None),
    ("deleted and created again", [PAUSED, DELETED, target(None), CREATED], TargetState.STARTED),
    ("compacted, new state first", [PAUSED, DELETED, CREATED], TargetState.PAUSED),
]


@pytest.mark.parametrize(
    ("records", "expected"), [c[1:] for c in TARGET_STATES], ids=[c[0] for c in TARGET_STATES]
)
def test_target_states(records: list[ConfigRecord], expected: TargetState | None) -> None:
    assert state_after(*records).target_state("c") is expected


# Records; the connector's tasks; their configs' versions; its count; is it inconsistent?
TASKS: list[tuple[str, list[ConfigRecord], list[str], int, bool]] = [
    ("not committed", [CREATED, task(0)], [], 0, False),
    ("committed", [CREATED, task(0), task(1), commit(2)], ["1", "1"], 2, False),
    ("written twice", [CREATED, task(0), task(0, "2"), commit(1)], ["2"], 1, False),
    ("replaced", [CREATED, task(0), commit(1), task(0, "2"), commit(1)], ["2"], 1, False),
    ("half replaced", [CREATED, task(0), commit(1), task(0, "2")], ["1"], 1, False),
    ("fewer", [CREATED, task(0), task(1), commit(2), task(0, "2"), commit(1)], ["2"], 1, False),
    ("none", [CREATED, task(0), commit(1), commit(0)], [], 0, False),
    ("compacted, more than committed", [CREATED, task(1), task(0), commit(1)], ["1"], 1, False),
    ("compacted, one missing", [CREATED, task(1), commit(2)], [], 2, True),
    (
        "compacted, complete later",
        [CREATED, task(1), commit(2), task(0, "2"), task(1, "2"), commit(2)],
        ["2", "2"],
        2,
        False,
    ),
    ("stale deferred do not help", [CREATED, task(1), commit(2), task(0), commit(2)], [], 2, True),
    ("config behind the commit", [task(0), commit(1), CREATED], [], 0, False),
    ("config between", [task(0), CREATED, commit(1)], ["1"], 1, False),
    ("deleted", [CREATED, task(0), commit(1), DELETED], [], 0, False),
    (
        "deferred go with the connector",
        [CREATED, task(0), DELETED, CREATED, commit(1)],
        [],
        1,
        True,
    ),
    ("deleted, created", [CREATED, task(0), commit(1), DELETED, CREATED], [], 0, False),
    ("an inconsistency outlives", [CREATED, task(1), commit(2), DELETED, CREATED], [], 0, True),
    ("mended by no tasks", [CREATED, task(1), commit(2), commit(0)], [], 0, False),
    ("no number, kept waiting", [CREATED, task(0), commit(None), commit(1)], ["1"], 1, False),
    ("no number, of nobody", [task(0), commit(None), CREATED, commit(1)], [], 1, True),
]


@pytest.mark.parametrize(
    ("records", "versions", "count", "inconsistent"),
    [c[1:] for c in TASKS],
    ids=[c[0] for c in TASKS],
)
def test_tasks(
    records: list[ConfigRecord], versions: list[str], count: int, inconsistent: bool
) -> None:
    state = state_after(*records)
    assert [config["v"] for config in state.raw_task_configs("c")] == versions
    assert state.tasks("c") == [InstanceId("c", number) for number in range(len(versions))]
    assert state.task_count("c") == count
    assert ("c" in state.inconsistent) is inconsistent


GENERATIONS: list[tuple[str, list[ConfigRecord], int | None]] = [
    ("never", [CREATED], None),
    ("first", [CREATED, task(0), commit(1)], 0),
    ("second", [CREATED, task(0), commit(1), task(0), commit(1)], 1),
    ("no configs ever", [CREATED, commit(0)], None),
    ("no configs now", [CREATED, task(0), commit(1), commit(0)], 1),
    ("incomplete", [CREATED, task(1), commit(2)], None),
    ("outlives its connector", [CREATED, task(0), commit(1), DELETED], 0),
]


@pytest.mark.parametrize(
    ("records", "generation"), [c[1:] for c in GENERATIONS], ids=[c[0] for c in GENERATIONS]
)
def test_generations_of_task_configs(records: list[ConfigRecord], generation: int | None) -> None:
    assert state_after(*records).task_config_generation("c") == generation


FENCING: list[tuple[str, list[ConfigRecord], bool, int | None]] = [
    ("no tasks", [CREATED], False, None),
    ("new tasks", [CREATED, task(0), commit(1)], True, None),
    ("fenced", [CREATED, task(0), commit(1), TaskCountRecord("c", 1)], False, 1),
    ("newer tasks", [CREATED, task(0), commit(1), TaskCountRecord("c", 1), commit(0)], True, 1),
    ("incomplete tasks, too", [CREATED, commit(1)], True, None),
    ("commit of nobody", [task(0), commit(1)], False, None),
    ("outlives its connector", [CREATED, commit(0), TaskCountRecord("c", 4), DELETED], False, 4),
]


@pytest.mark.parametrize(
    ("records", "pending", "record"), [c[1:] for c in FENCING], ids=[c[0] for c in FENCING]
)
def test_fencing(records: list[ConfigRecord], pending: bool, record: int | None) -> None:
    state = state_after(*records)
    assert (state.pending_fencing("c"), state.task_count_record("c")) == (pending, record)


APPLIED: list[tuple[str, list[ConfigRecord], Mapping[str, str] | None]] = [
    ("no tasks", [CREATED], None),
    ("committed", [CREATED, task(0), commit(1)], {"v": "1"}),
    ("changed since", [CREATED, task(0), commit(1), CHANGED], {"v": "1"}),
    ("committed again", [CREATED, commit(0), CHANGED, commit(0)], {"v": "2"}),
    ("incomplete", [CREATED, commit(1)], None),
    ("deleted", [CREATED, commit(0), DELETED, CREATED], None),
]


@pytest.mark.parametrize(
    ("records", "config"), [c[1:] for c in APPLIED], ids=[c[0] for c in APPLIED]
)
def test_the_config_that_tasks_were_made_from(
    records: list[ConfigRecord], config: Mapping[str, str] | None
) -> None:
    assert state_after(*records).applied_connector_config("c") == config


def test_connectors_do_not_disturb_each_other() -> None:
    other = TaskConfigRecord(InstanceId("c-0", 0), {"v": "other"})
    state = state_after(
        CREATED,
        ConnectorConfigRecord("c-0", {}),
        task(0),
        other,
        commit(1),
        DELETED,
        TaskCommitRecord("c-0", 1),
    )
    assert state.connectors() == ["c-0"]
    assert state.raw_task_configs("c-0") == [{"v": "other"}]


def test_references_are_resolved_for_running_and_kept_for_showing() -> None:
    said = {"answer": "first"}

    def transform(connector: str, config: Mapping[str, str]) -> Mapping[str, str]:
        assert connector == "c"
        return {key: value.replace("${p:a}", said["answer"]) for key, value in config.items()}

    builder = ConfigStateBuilder(transform)
    builder.apply(0, ConnectorConfigRecord("c", {"secret": "${p:a}"}))
    builder.apply(1, TaskConfigRecord(C0, {"secret": "${p:a}"}))
    builder.apply(2, commit(1))
    state = builder.snapshot()
    assert state.raw_connector_config("c") == state.raw_task_config(C0) == {"secret": "${p:a}"}
    assert state.connector_config("c") == state.task_config(C0) == {"secret": "first"}
    assert state.applied_connector_config("c") == {"secret": "first"}
    said["answer"] = "second"
    assert state.connector_config("c") == {"secret": "second"}
    builder.apply(3, PAUSED)
    assert builder.snapshot().applied_connector_config("c") == {"secret": "first"}
    assert state.connector_config("nobody") is None
    assert state.task_config(C2) is None


def test_a_printed_snapshot_has_no_configs() -> None:
    secret = {"password": "hush"}
    state = state_after(ConnectorConfigRecord("c", secret), TaskConfigRecord(C0, secret), commit(1))
    assert "hush" not in repr(state)


_RECORDS_OF_C: list[ConfigRecord] = [
    *(CREATED, CHANGED, DELETED, PAUSED, STOPPED, target(None), RESTART, TaskCountRecord("c", 1)),
    *(task(number, version) for number in range(3) for version in "12"),
    *(commit(number) for number in range(4)),
]


@given(st.lists(st.sampled_from(_RECORDS_OF_C), max_size=25))
def test_always(records: list[ConfigRecord]) -> None:
    """Whatever the order: every task that is shown has a config, every connector a target."""
    state = state_after(*records)
    assert all(state.raw_task_config(found) is not None for found in state.tasks("c"))
    assert all(state.target_state(name) is not None for name in state.connectors())
    if not state.contains("c"):
        assert state.tasks("c") == []
        assert state.task_configs == {}
        assert state.applied_connector_config("c") is None
    assert state.offset == (len(records) or -1)


def test_a_commit_that_is_written_again_changes_nothing() -> None:
    builder = ConfigStateBuilder()
    builder.startup_complete()
    records: list[ConfigRecord] = [CREATED, task(0), task(1), commit(2)]
    for offset, record in enumerate(records):
        builder.apply(offset, record)
    before = builder.snapshot()
    assert builder.apply(4, commit(2)) == ()
    after = builder.snapshot()
    assert after.tasks("c") == before.tasks("c") == [C0, C1]
    assert after.task_config_generation("c") == before.task_config_generation("c")
    builder.apply(5, commit(1))
    assert builder.snapshot().tasks("c") == []
