"""Failures and an operator's changes leave events in the history of their flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from connect.clock import Deadline
from connect.config.secrets import remember
from connect.config.types import SecretStr
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.plugins.permissions import EVERYTHING, Permissions
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.standalone.herder import StandaloneHerder
from connect.runtime.states import State
from connect.runtime.thread_dumps import error_trace
from connect.runtime.worker import Worker
from connectors.mirror import plugins as mirror_plugins
from connectors.mirror.history.database import read_events
from connectors.mirror.history.flow_events import (
    changed_keys,
    failure_event,
    write_change,
    write_command,
)
from connectors.mirror.plugins import CONNECTORS
from tests.support.waiting import wait_until
from tests.support.workers.memory_offset_store import MemoryOffsetStore

TIMEOUT_S = 10.0
NOBODY = "127.0.0.1:1"
BYTES = "ByteArrayConverter"
KINDS = [connector.__name__ for connector in CONNECTORS]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'h.db'}"


def props(url: str | None, kind: str = KINDS[0], **more: str) -> dict[str, str]:
    return {
        "name": kind,
        "connector.class": kind,
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": NOBODY,
        "target.cluster.bootstrap.servers": NOBODY,
        **({} if url is None else {"mirror.history.url": url}),
        **more,
    }


def events(url: str) -> list[dict[str, Any]]:
    try:
        return read_events(SecretStr(url), 100)
    except ConnectError:
        return []  # No table yet.


def wait_events(url: str, count: int) -> list[dict[str, Any]]:
    wait_until(lambda: len(events(url)) >= count, TIMEOUT_S, f"{count} events")
    return events(url)


def herder(permissions: Permissions | None) -> Iterator[StandaloneHerder]:
    registry = PluginRegistry(discover=False)
    mirror_plugins.register(registry)
    worker = WorkerConfig.from_properties(
        {
            "bootstrap.servers": NOBODY,
            "group.id": "g",
            "offset.storage.topic": "unused",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,
        }
    )
    opened = StandaloneHerder(
        Worker(
            worker,
            registry,
            MetricRegistry(),
            worker_id="w",
            offset_store=MemoryOffsetStore(),
            permissions=permissions,
        )
    )
    opened.start(Deadline(TIMEOUT_S))
    yield opened
    opened.stop(Deadline(TIMEOUT_S))


@pytest.fixture
def operators() -> Iterator[StandaloneHerder]:
    """A worker whose connectors' configs are the operator's own, as in dedicated mode."""
    yield from herder(EVERYTHING)


@pytest.fixture
def shared() -> Iterator[StandaloneHerder]:
    """A worker whose connectors' configs come from whoever reaches its REST API."""
    yield from herder(None)


def fail(herder: StandaloneHerder, config: Mapping[str, str]) -> str:
    """Start a connector with a wrong config, which an earlier release may have stored. Return the
    trace of its status."""
    name = config["name"]
    herder._commands.run(lambda: herder._set.put(name, config, None), TIMEOUT_S)
    wait_until(lambda: herder.status(name).status.state is State.FAILED, TIMEOUT_S, "a failure")
    return herder.status(name).status.trace or ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_connector_that_fails_on_a_worker_leaves_an_event_with_its_cause(
    operators: StandaloneHerder, url: str, kind: str
) -> None:
    fail(operators, props(url, kind, **{"replication.policy.class": "no.such.Policy"}))
    (event,) = wait_events(url, 1)
    assert (event["kind"], event["source"], event["target"]) == ("connector.failed", "a", "b")
    assert (event["connector"], event["topic"], event["partition"]) == (kind, "", -1)
    assert event["text"].startswith(f"Connector {kind} failed: ConfigError: ")
    assert "Traceback" not in event["text"]


@pytest.mark.parametrize("kind", KINDS)
def test_so_does_a_failed_task_of_each_kind(url: str, kind: str) -> None:
    (connector,) = (each for each in CONNECTORS if each.__name__ == kind)
    connector.note_failure(props(url, kind), kind, 3, trace_of("no further"))
    (event,) = wait_events(url, 1)
    assert (event["kind"], event["connector"], event["task"]) == ("task.failed", kind, 3)
    assert event["text"] == f"Task 3 of {kind} failed: ConnectError: no further"


def test_a_database_that_the_worker_does_not_permit_is_not_opened(
    shared: StandaloneHerder, url: str, tmp_path: Path
) -> None:
    trace = fail(shared, props(url))
    assert "mirror.history.url" in trace
    assert list(tmp_path.iterdir()) == []


def trace_of(text: str, cause: str | None = None) -> str:
    try:
        try:
            raise ValueError(cause)
        except ValueError as error:
            raise ConnectError(text) from (error if cause else None)
    except ConnectError as error:
        return error_trace(error)


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        (trace_of("no broker"), "ConnectError: no broker"),
        (trace_of("no broker", "refused"), "ConnectError: no broker"),
        (trace_of("first\nsecond"), "ConnectError: first\nsecond"),
        ("did not start within 60 s", "did not start within 60 s"),
        ("", "the cause is not known; see the worker's log"),
    ],
)
def test_the_event_has_the_error_and_not_its_frames(trace: str, told: str) -> None:
    assert failure_event("c", None, trace).text == f"Connector c failed: {told}"


def test_secrets_of_a_cause_are_hidden() -> None:
    remember(["hunter2-secret"])
    event = failure_event("c", 0, "refused password hunter2-secret")
    assert event.text == "Task 0 of c failed: refused password [hidden]"


def test_changed_properties_are_named_without_their_values() -> None:
    before = {"topics": "a", "sasl.jaas.config": "old-secret", "gone": "1", "same": "x"}
    after = {"topics": "b", "sasl.jaas.config": "new-secret", "new": "2", "same": "x"}
    assert changed_keys(before, after) == (
        "changed sasl.jaas.config, topics; added new; removed gone"
    )


def test_a_changed_file_leaves_an_event(url: str) -> None:
    write_change(props(url), KINDS[0], "file", "changed topics")
    (event,) = events(url)
    assert (event["kind"], event["action"], event["text"]) == ("changed", "file", "changed topics")


def test_a_command_tells_who_gave_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    write_command(props(url), "changed", "pause", "connect-mirror pause a->b")
    (event,) = events(url)
    assert (event["kind"], event["action"]) == ("changed", "pause")
    assert event["text"].startswith("ann on ")
    assert event["text"].endswith(": connect-mirror pause a->b")


def test_a_command_makes_no_history_on_a_host_without_the_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    write_command(props(None), "changed", "pause", "paused")
    assert list(tmp_path.iterdir()) == []
    write_change(props(None), KINDS[0], "file", "changed topics")
    write_command(props(None), "changed", "pause", "paused")
    (file,) = (tmp_path / "connect-mirror").glob("*.db")
    assert [each["action"] for each in events(f"sqlite:///{file}")] == ["file", "pause"]
