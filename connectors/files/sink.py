"""Kafka's FileStreamSink: appends the value of each record as a line to a file or to standard
output."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from connect.config.definition import ConfigDef, ConfigKey, ConfigProblem, Importance
from connect.config.types import ConfigType
from connect.data.values import text_of
from connect.errors import TaskFailed
from connect.plugin import (
    AlteredOffset,
    SinkConnector,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from connectors.files.root import not_permitted

__all__ = ["FileStreamSinkConnector", "FileStreamSinkTask"]

_CONFIG_DEF = ConfigDef(
    [
        ConfigKey(
            "file",
            ConfigType.STRING,
            None,
            importance=Importance.HIGH,
            doc="The file to append to. The default is standard output.",
        ),
    ]
)


class FileStreamSinkConnector(SinkConnector):
    """The connector. All its tasks append to the same file."""

    _config: Mapping[str, str]

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    @classmethod
    def not_permitted(
        cls, config: Mapping[str, str], worker: Mapping[str, str]
    ) -> Sequence[ConfigProblem]:
        return not_permitted(config, worker)

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        """Return true: the offsets of the consumer group are the connector's only offsets."""
        return True

    def start(self, config: Mapping[str, str]) -> None:
        _CONFIG_DEF.parse(config)
        self._config = config

    def task_class(self) -> type[SinkTask]:
        return FileStreamSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config) for _ in range(max_tasks)]

    def stop(self) -> None:
        """Do nothing: there is nothing to close."""


class FileStreamSinkTask(SinkTask):
    """Appends values to the file. Records are in the file before their offsets are committed."""

    _out: TextIO | None = None

    def start(self, config: Mapping[str, str]) -> None:
        self._filename = _CONFIG_DEF.parse(config).optional_string("file")
        if self._filename is None:
            self._out = sys.stdout
            return
        try:
            self._out = open(self._filename, "a", encoding="utf-8", newline="\n")  # noqa: SIM115
        except OSError as error:
            raise TaskFailed(f"Cannot write to file {self._filename}: {error}") from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        assert self._out is not None
        self._out.writelines(f"{_line(record)}\n" for record in records)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert self._out is not None
        self._out.flush()

    def stop(self) -> None:
        if self._out is not None and self._filename is not None:
            self._out.close()
        self._out = None


def _line(record: SinkRecord) -> str:
    if record.value is None:
        return "null"
    if isinstance(record.value, bytes):
        return record.value.decode("utf-8", "replace")
    if isinstance(record.value, str):
        return record.value
    return text_of(record.value_schema, record.value) or ""
