"""A connector's class learns which of its connectors and tasks fail on a worker, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from connect.clock import Deadline
from connect.config.definition import ConfigDef, ConfigProblem
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.plugin import Connector, SourceRecord, SourceTask, TransferTask
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.standalone.herder import StandaloneHerder
from connect.runtime.states import InstanceId, State
from connect.runtime.worker import Worker
from tests.support.waiting import wait_until
from tests.support.workers.memory_offset_store import MemoryOffsetStore

TIMEOUT_S = 10.0
BYTES = "ByteArrayConverter"

Noted = tuple[Mapping[str, str], str, int | None, str]


class Breaking(SourceTask):
    """Fails when it is asked for records."""

    def start(self, config: Mapping[str, str]) -> None:
        if config.get("task.start") == "fails":
            raise ConnectError("no start of a task")

    def poll(self) -> Sequence[SourceRecord] | None:
        raise ConnectError("no records")

    def stop(self) -> None:
        """Nothing is open."""


class Noting(Connector):
    """Keeps what it is told."""

    noted: ClassVar[list[Noted]]
    note_fails: ClassVar[bool]

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    @classmethod
    def not_permitted(
        cls, config: Mapping[str, str], worker: Mapping[str, str]
    ) -> Sequence[ConfigProblem]:
        return [ConfigProblem("forbidden", "not here")] if "forbidden" in config else []

    @classmethod
    def note_failure(
        cls, config: Mapping[str, str], connector: str, task: int | None, trace: str
    ) -> None:
        cls.noted.append((dict(config), connector, task, trace))
        if cls.note_fails:
            raise ValueError("the disk is full")

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        if config.get("start") == "fails":
            raise ConnectError("no start")

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return Breaking

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)] * max_tasks

    def stop(self) -> None:
        """Nothing is open."""


@pytest.fixture
def herder(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneHerder]:
    monkeypatch.setattr(Noting, "noted", [], raising=False)
    monkeypatch.setattr(Noting, "note_fails", False, raising=False)
    plugins = PluginRegistry(discover=False)
    plugins.register(Noting)
    converters = {f"{what}.converter": BYTES for what in ("key", "value", "header")}
    config = WorkerConfig.from_properties(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "group.id": "g",
            "offset.storage.topic": "unused",
            "config.providers": "file",
            "config.providers.file.class": "FileConfigProvider",
            **converters,
        }
    )
    opened = StandaloneHerder(
        Worker(config, plugins, MetricRegistry(), worker_id="w", offset_store=MemoryOffsetStore())
    )
    opened.start(Deadline(TIMEOUT_S))
    yield opened
    opened.stop(Deadline(TIMEOUT_S))


def put(herder: StandaloneHerder, **config: str) -> None:
    """Without the checks of REST requests: a stored config may be wrong by now."""
    given = {"connector.class": "Noting", "name": "c", **config}
    herder._commands.run(lambda: herder._set.put("c", given, None), TIMEOUT_S)


def noted(count: int) -> list[Noted]:
    wait_until(lambda: len(Noting.noted) >= count, TIMEOUT_S, f"{count} failures")
    return sorted(Noting.noted, key=lambda each: each[2] or -1)


def test_of_a_connector_that_does_not_start(herder: StandaloneHerder) -> None:
    put(herder, start="fails")
    ((config, connector, task, trace),) = noted(1)
    assert (config["start"], connector, task) == ("fails", "c", None)
    assert trace.endswith("no start")


@pytest.mark.parametrize("at_start", [True, False])
def test_of_each_task_with_its_number_and_the_connectors_config(
    herder: StandaloneHerder, *, at_start: bool
) -> None:
    put(herder, **{"tasks.max": "2", "task.start": "fails" if at_start else "works"})
    found = noted(2)
    assert [(connector, task) for _, connector, task, _ in found] == [("c", 0), ("c", 1)]
    assert {config["tasks.max"] for config, *_ in found} == {"2"}
    cause = "no start of a task" if at_start else "no records"
    assert all(trace.endswith(cause) for *_, trace in found)


def test_a_failure_that_lasts_is_noted_once(herder: StandaloneHerder) -> None:
    put(herder, start="fails")
    noted(1)
    herder._worker.statuses.tell_again(InstanceId("c"))
    assert len(Noting.noted) == 1


def test_a_reference_that_cannot_be_resolved_is_in_the_config(
    herder: StandaloneHerder, tmp_path: Path
) -> None:
    reference = f"${{file:{tmp_path / 'none.properties'}:url}}"
    put(herder, url=reference)
    ((config, _, task, trace),) = noted(1)
    assert (config["url"], task) == (reference, None)
    assert "none.properties" in trace


def test_a_class_that_cannot_note_it_harms_nothing(
    herder: StandaloneHerder, caplog: pytest.LogCaptureFixture
) -> None:
    Noting.note_fails = True
    put(herder, start="fails")
    noted(1)
    wait_until(lambda: "the disk is full" in caplog.text, TIMEOUT_S, "the log")
    assert herder.status("c").status.state is State.FAILED


def test_a_config_that_the_worker_does_not_permit_is_not_shown_to_the_class(
    herder: StandaloneHerder,
) -> None:
    put(herder, forbidden="1")
    wait_until(lambda: herder.status("c").status.state is State.FAILED, TIMEOUT_S, "a failure")
    assert Noting.noted == []
