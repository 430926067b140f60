"""Connectors for tests of worker groups, found through `plugin.path`: sources without records.

    tasks               how many tasks there are, as far as tasks.max allows
    behaviour           `hangs`, `throws`: the connector's start; `never stops`: its tasks
    ledger              a directory: each task appends its doings to the file `<connector>-<task>`

A line of the ledger is `<monotonic seconds> <process id> <start, beat or stop> <mark>`; the mark is
the config's `mark`. Monotonic time is the same for all processes of a machine.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from connect.sdk import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    SourceConnector,
    SourceRecord,
    SourceTask,
)

_BEAT_S = 0.05
_IDLE_S = 5.0
# Far above what a test waits for.
_HANG_S = 300.0


class StagedConnector(SourceConnector):
    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef(
            [
                ConfigKey("tasks", ConfigType.INT, 1),
                ConfigKey("behaviour", ConfigType.STRING, ""),
                ConfigKey("ledger", ConfigType.STRING, ""),
                ConfigKey("mark", ConfigType.STRING, ""),
            ]
        )

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        if config.get("behaviour") == "hangs":
            threading.Event().wait(_HANG_S)
        if config.get("behaviour") == "throws":
            raise ValueError("the connector cannot start")

    def task_class(self) -> type[SourceTask]:
        return StagedTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, int(self.config.get("tasks", "1")))
        return [{**self.config, "number": str(number)} for number in range(count)]

    def stop(self) -> None:
        return


class StagedTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._stubborn = config.get("behaviour") == "never stops"
        self._mark = config.get("mark", "")
        self._stopping = threading.Event()
        ledger = config.get("ledger", "")
        self._ledger = Path(ledger) / f"{config['name']}-{config['number']}" if ledger else None
        self._note("start")

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._stubborn:
            threading.Event().wait(_HANG_S)
        self._note("beat")
        self._stopping.wait(_IDLE_S if self._ledger is None else _BEAT_S)
        return None

    def stopping(self) -> None:
        self._stopping.set()

    def stop(self) -> None:
        self._note("stop")

    def _note(self, event: str) -> None:
        if self._ledger is not None:
            line = f"{time.monotonic():.3f} {os.getpid()} {event} {self._mark}\n"
            # One write of a short line: appends of several processes do not mix.
            with self._ledger.open("a", encoding="utf-8") as ledger:
                ledger.write(line)
