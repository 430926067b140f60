"""Connectors and tasks whose method `hangs` names does not return until `Events.release` is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect.config.definition import ConfigProblem
from connect.plugin import (
    ConnectorContext,
    SinkRecord,
    SinkTask,
    SourceRecord,
    SourceTask,
    TopicPartition,
    TransferTask,
)
from tests.support.workers.plugins import Events, LaneConnector, RecordLaneTask, SimpleSinkConnector

__all__ = ["HangingAtInitializeConnector", "HangingConnector", "HangingSinkConnector"]

# Far above what a test waits for.
_HANG_S = 120.0


def _pass(config: Mapping[str, str], method: str) -> None:
    """Hang if the config names this method."""
    if config.get("hangs") == method:
        Events.tell(config["topic"], f"hangs in {method}")
        Events.release.wait(_HANG_S)


class HangingConnector(LaneConnector):
    """A source."""

    @classmethod
    def validate(cls, config: Mapping[str, str]) -> Sequence[ConfigProblem]:
        _pass(config, "validate")
        return ()

    def initialize(self, context: ConnectorContext) -> None:
        super().initialize(context)
        self.config: dict[str, str] = {}

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        _pass(config, "start")

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return HangingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        _pass(self.config, "task_configs")
        return super().task_configs(max_tasks)

    def stop(self) -> None:
        _pass(self.config, "stop")
        super().stop()


class HangingAtInitializeConnector(LaneConnector):
    """A source that hangs before it knows its config. It tells so under its name."""

    def initialize(self, context: ConnectorContext) -> None:
        super().initialize(context)
        Events.tell(context.connector_name, "hangs in initialize")
        Events.release.wait(_HANG_S)


class HangingTask(RecordLaneTask):
    """Its task."""

    def start(self, config: Mapping[str, str]) -> None:
        _pass(config, "task.start")
        super().start(config)

    def poll(self) -> Sequence[SourceRecord] | None:
        _pass(self._config, "task.poll")
        return super().poll()

    def commit(self) -> None:
        _pass(self._config, "task.commit")
        super().commit()

    def stop(self) -> None:
        _pass(self._config, "task.stop")
        super().stop()


class HangingSinkConnector(SimpleSinkConnector):
    """A sink."""

    def task_class(self) -> type[SinkTask]:
        return HangingSinkTask


class HangingSinkTask(SinkTask):
    """Its task."""

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        _pass(config, "task.start")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        _pass(self._config, "task.open")

    def put(self, records: Sequence[SinkRecord]) -> None:
        _pass(self._config, "task.put")

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if offsets:
            _pass(self._config, "task.pre_commit")
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        _pass(self._config, "task.close")

    def stop(self) -> None:
        _pass(self._config, "task.stop")
