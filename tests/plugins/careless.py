"""A connector that quotes its secrets wherever it can, found through `plugin.path`.

pin      a secret under a harmless name
fails    `connector` or `task`: what raises an error, with all of the config in its text
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from connect.sdk import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    DataError,
    ParsedConfig,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Transformation,
)

_log = logging.getLogger("careless")


class CarelessConnector(SourceConnector):
    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef(
            [
                ConfigKey("pin", ConfigType.PASSWORD, None),
                ConfigKey("fails", ConfigType.STRING, ""),
            ]
        )

    def start(self, config: Mapping[str, str]) -> None:
        _log.warning("starts with %s", config)
        self.config = dict(config)
        if config.get("fails") == "connector":
            raise ValueError(f"cannot start with {config!r}")

    def task_class(self) -> type[SourceTask]:
        return CarelessTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self.config]

    def stop(self) -> None:
        """Nothing was opened."""


class CarelessTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        _log.warning("has %s", config)
        self._config = config
        self._stop = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._config.get("fails") == "task":
            raise ValueError(f"cannot poll with {self._config['pin']!r} and {self._config}")
        self._stop.wait(1.0)
        return None

    def stopping(self) -> None:
        self._stop.set()

    def stop(self) -> None:
        """Nothing was opened."""


class CarelessTransform(Transformation):
    """Refuses every record, with its secret in the error's text."""

    CONFIG_DEF = ConfigDef([ConfigKey("pin", ConfigType.PASSWORD)])

    def take(self, config: ParsedConfig) -> None:
        pin = config.secret("pin")
        self._pin = "" if pin is None else pin.reveal()

    def apply(self, record: Any) -> Any:
        raise DataError(f"cannot transform {record.topic} with {self._pin!r}")
