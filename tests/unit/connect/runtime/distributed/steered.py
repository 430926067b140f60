"""A connector and tasks that do what a test says, and tell it what was done with them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import ClassVar

from connect.clock import Deadline
from connect.config.definition import ConfigDef
from connect.errors import ConnectError
from connect.plugin import Connector, PartitionHealth, SourceTask, StoredOffset, TransferTask
from connect.runtime.states import State
from tests.support.workers.driven_herder import Rig

__all__ = ["Steered", "SteeredTask", "Told", "config", "put", "running"]

_HANG_S = 60.0


def config(**more: str) -> dict[str, str]:
    return {"connector.class": "Steered", "tasks.max": "9", **more}


class Told:
    """What plugins were told to do, in order. `release` ends what hangs."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _events: ClassVar[list[str]] = []
    release: ClassVar[threading.Event] = threading.Event()

    @classmethod
    def reset(cls) -> None:
        cls.release.set()
        cls.release = threading.Event()
        with cls._lock:
            cls._events.clear()

    @classmethod
    def note(cls, event: str) -> None:
        with cls._lock:
            cls._events.append(event)

    @classmethod
    def take(cls) -> list[str]:
        """What has happened since the last look."""
        with cls._lock:
            events = list(cls._events)
            cls._events.clear()
            return events

    @classmethod
    def seen(cls, event: str) -> bool:
        with cls._lock:
            return event in cls._events


class Steered(Connector):
    """`tasks` is what all its instances give, `failures` is raised instead as long as there is
    any, `unmakeable` keeps it from being made at all. Options: `start` and `stop`, "hangs", or
    "fails"."""

    tasks: ClassVar[list[dict[str, str]]] = []
    failures: ClassVar[list[Exception]] = []
    unmakeable: ClassVar[bool] = False
    last: ClassVar[Steered]

    @classmethod
    def reset(cls) -> None:
        cls.tasks, cls.failures, cls.unmakeable = [{"n": "0"}], [], False
        Told.reset()

    def __init__(self) -> None:
        if self.unmakeable:
            raise ValueError("not to be made")
        super().__init__()
        self._release = Told.release

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    @classmethod
    def version(cls) -> str:
        return "7.1"

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        Told.note(f"starting {config['name']}")
        if config.get("start") == "fails":
            raise ConnectError("no start")
        if config.get("start") == "hangs":
            self._release.wait(_HANG_S)
        Steered.last = self
        Told.note(f"started {config['name']}")

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return SteeredTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self.failures:
            raise self.failures.pop(0)
        return [dict(task) for task in self.tasks]

    def stop(self) -> None:
        Told.note(f"stopped {self._config['name']}")

    @classmethod
    def regroup(cls, *tasks: dict[str, str]) -> None:
        """Have other tasks from now on."""
        cls.tasks = list(tasks)
        cls.last.context.request_task_reconfiguration()


class SteeredTask(TransferTask):
    """Moves nothing. Options: `start` and `step`, "fails"; `stop`, "hangs"."""

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._release = Told.release
        self._woken = threading.Event()
        self._id = f"{self.context.connector_name}-{self.context.task_index}"
        if config.get("start") == "fails":
            raise ConnectError("the task does not start")
        Told.note(f"started {self._id} with {config.get('n')}")

    def step(self, timeout: float) -> None:
        if self._config.get("step") == "fails":
            raise ConnectError("no further")
        self._woken.wait(timeout)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        answer: Future[list[StoredOffset]] = Future()
        answer.set_result([])
        return answer

    def committed(self) -> None:
        """Nothing depends on it."""

    def pause(self) -> None:
        """Nothing moves anyway."""

    def resume(self) -> None:
        """Nothing moves anyway."""

    def drain(self, deadline: Deadline) -> None:
        if self._config.get("stop") == "hangs":
            self._release.wait(_HANG_S)

    def stop(self) -> None:
        Told.note(f"stopped {self._id}")

    def health(self) -> list[PartitionHealth]:
        return []


def put(rig: Rig, name: str = "c", **more: str) -> None:
    rig.herder.put_connector_config(name, config(**more), allow_replace=True)


def running(rig: Rig, name: str = "c", tasks: int = 1, **more: str) -> None:
    put(rig, name, **more)
    rig.becomes(name, State.RUNNING, *[State.RUNNING] * tasks)
