"""Kafka's FileStreamSource: turns the lines of a file or of standard input into records.

Source partition {"filename": <file>}, source offset {"position": <bytes read>}. Java's connector
can resume from our offset and vice versa. Java counts characters while we count bytes, so if a file
has non-ASCII text, the other one resumes at a wrong position.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Mapping, Sequence

from connect.clock import SYSTEM_CLOCK
from connect.config.definition import ConfigDef, ConfigKey, ConfigProblem, Importance
from connect.config.types import ConfigType
from connect.config.validators import NonEmptyString
from connect.data.schema import Schema, Type
from connect.errors import ConnectError, TaskFailed
from connect.plugin import AlteredOffset, Connector, SourceRecord, SourceTask
from connectors.files.lines import LineCutter
from connectors.files.root import not_permitted

__all__ = ["FileStreamSourceConnector", "FileStreamSourceTask"]

_log = logging.getLogger(__name__)

FILENAME_FIELD, POSITION_FIELD = "filename", "position"

# How long the task waits for more data, or for a file that does not exist yet; as in Java.
_WAIT_S = 1.0
_CHUNK_BYTES = 1 << 16
_LINE_SCHEMA = Schema(Type.STRING)

_CONFIG_DEF = ConfigDef(
    [
        ConfigKey(
            "file",
            ConfigType.STRING,
            None,
            importance=Importance.HIGH,
            doc="The file to read. The default is standard input.",
        ),
        ConfigKey(
            "topic",
            ConfigType.STRING,
            validator=NonEmptyString(),
            importance=Importance.HIGH,
            doc="The topic to which lines are written.",
        ),
        ConfigKey(
            "batch.size",
            ConfigType.INT,
            2000,
            importance=Importance.LOW,
            doc="The maximum number of lines in one batch.",
        ),
    ]
)


class FileStreamSourceConnector(Connector):
    """The connector. One task reads the file."""

    _config: Mapping[str, str]

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        """Exactly-once is supported for a file that is only appended to. The position in standard
        input is unknown."""
        return bool(_CONFIG_DEF.parse(config).optional_string("file"))

    @classmethod
    def not_permitted(
        cls, config: Mapping[str, str], worker: Mapping[str, str]
    ) -> Sequence[ConfigProblem]:
        return not_permitted(config, worker)

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        """Validate altered offsets. Deleting is always allowed, so that users can clean up. The
        task checks at its start whether the file is as long as the new position."""
        if not config.get("file"):
            raise ConnectError(
                "Offsets cannot be altered: the connector reads standard input, which has no "
                "offsets; set 'file'"
            )
        for partition, offset in offsets:
            if offset is None:
                continue
            _check_position(offset)
            if partition is None or FILENAME_FIELD not in partition:
                raise ConnectError(
                    f"A partition must be an object with the key '{FILENAME_FIELD}', whose value "
                    "is the file name"
                )
        return True

    def start(self, config: Mapping[str, str]) -> None:
        _CONFIG_DEF.parse(config)
        self._config = config

    def task_class(self) -> type[SourceTask]:
        return FileStreamSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)]

    def stop(self) -> None:
        """Do nothing: there is nothing to close."""


class FileStreamSourceTask(SourceTask):
    """Reads from the stored position, and waits for more at the end of the file."""

    _descriptor: int | None = None

    def start(self, config: Mapping[str, str]) -> None:
        parsed = _CONFIG_DEF.parse(config)
        self._filename = parsed.optional_string("file") or None
        self._topic = parsed.string("topic")
        self._batch_size = parsed.integer("batch.size")
        self._stop = threading.Event()
        self._lines = LineCutter()
        self._missing_said = False
        if self._filename is None:
            self._descriptor = sys.stdin.fileno()

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._descriptor is None:
            self._open()
        if self._descriptor is None:
            self._stop.wait(_WAIT_S)
            return None
        records = self._records()
        if records:
            return records
        data = self._read(self._descriptor)
        if not data:
            self._stop.wait(_WAIT_S)
            return None
        self._lines.add(data)
        return self._records()

    def stopping(self) -> None:
        self._stop.set()

    def stop(self) -> None:
        if self._descriptor is not None and self._filename is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _open(self) -> None:
        assert self._filename is not None
        try:
            descriptor = os.open(self._filename, os.O_RDONLY)
        except FileNotFoundError:
            if not self._missing_said:
                self._missing_said = True
                _log.warning("%s does not exist yet; waiting until it does", self._filename)
            return
        except OSError as error:
            raise TaskFailed(f"Cannot read file {self._filename}: {error}") from error
        try:
            position = self._stored_position()
            os.lseek(descriptor, position, os.SEEK_SET)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        self._lines = LineCutter(position)

    def _stored_position(self) -> int:
        (offset,) = self.context.stored_offsets([{FILENAME_FIELD: self._filename}])
        if offset is None or offset.get(POSITION_FIELD) is None:
            return 0
        return _check_position(offset)

    def _read(self, descriptor: int) -> bytes:
        if self._filename is None:
            ready, _, _ = select.select([descriptor], [], [], _WAIT_S)
            if not ready:
                return b""
        try:
            return os.read(descriptor, _CHUNK_BYTES)
        except OSError as error:
            where = self._filename or "standard input"
            raise TaskFailed(f"Cannot read {where}: {error}") from error

    def _records(self) -> list[SourceRecord]:
        records: list[SourceRecord] = []
        while len(records) < self._batch_size:
            line = self._lines.next_line()
            if line is None:
                break
            position = None if self._filename is None else self._lines.position
            records.append(
                SourceRecord(
                    {FILENAME_FIELD: self._filename},
                    {POSITION_FIELD: position},
                    self._topic,
                    None,
                    None,
                    line.decode("utf-8", "replace"),
                    SYSTEM_CLOCK.now_ms(),
                    value_schema=_LINE_SCHEMA,
                )
            )
        return records


def _check_position(offset: Mapping[str, object]) -> int:
    position = offset.get(POSITION_FIELD)
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        shown = dict(offset)
        raise ConnectError(
            f"Invalid offset {shown}: '{POSITION_FIELD}' must be the number of bytes read, an "
            "integer of at least 0"
        )
    return position
