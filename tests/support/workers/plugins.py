"""Small connectors for tests of the runtime: one of record tasks, one of transfer tasks.

Both write the numbers 0, 1, 2 ... (`count` of them) of each of their lanes to partition 0 of
`topic`, as text "<lane>:<number>", and keep the last one as source offset. A task's `lanes` are a
comma-separated list. `Events` is what they tell the test.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import ClassVar

from connect.clients.librdkafka.record_sender import RecordSender
from connect.clock import Deadline
from connect.config.definition import ConfigDef, ConfigKey
from connect.config.types import ConfigType
from connect.errors import BrokerUnavailable, ConnectError
from connect.plugin import (
    Connector,
    PartitionHealth,
    RecordMetadata,
    SinkConnector,
    SourcePartition,
    SourceRecord,
    SourceTask,
    StoredOffset,
    TransferTask,
)

__all__ = [
    "Events",
    "LaneConnector",
    "RecordLaneTask",
    "SimpleSinkConnector",
    "TransferLaneConnector",
    "TransferLaneTask",
]

# Far above what a test waits for, so that a hang shows in what is tested and not here.
_HANG_S = 120.0
_FLUSH_S = 10.0


class Events:
    """What happened inside plugins, by name of the topic they write to; and what lets hung ones go.

    Safe to use from any thread.
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _told: ClassVar[dict[str, list[str]]] = {}
    release: ClassVar[threading.Event] = threading.Event()

    @classmethod
    def tell(cls, topic: str, event: str) -> None:
        with cls._lock:
            cls._told.setdefault(topic, []).append(event)

    @classmethod
    def of(cls, topic: str) -> list[str]:
        with cls._lock:
            return list(cls._told.get(topic, ()))


def _lane(lane: str) -> SourcePartition:
    return {"lane": lane}


def _lanes(config: Mapping[str, str]) -> list[str]:
    return [lane for lane in config["lanes"].split(",") if lane]


class LaneConnector(Connector):
    """`groups` is what its tasks get, split at `;`: "a,b;c" makes two tasks. It looks at its config
    only; `connectors` lets a test reach the instance and ask it for others."""

    instances: ClassVar[dict[str, LaneConnector]] = {}

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef(
            [ConfigKey("topic", ConfigType.STRING), ConfigKey("count", ConfigType.INT, 0)]
        )

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        self.instances[config["name"]] = self
        if config.get("start") == "fails":
            raise ConnectError("the connector cannot start")
        if config.get("start") == "hangs":
            Events.release.wait(_HANG_S)

    def regroup(self, groups: str) -> None:
        """Have other tasks from now on."""
        self.config["groups"] = groups
        self.context.request_task_reconfiguration()

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return RecordLaneTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        groups = [group for group in self.config.get("groups", "a").split(";") if group]
        return [{**self.config, "groups": "", "lanes": group} for group in groups]

    def stop(self) -> None:
        Events.tell(self.config["topic"], "connector stopped")
        if self.config.get("end") == "fails":
            raise ConnectError("the connector cannot stop")


class TransferLaneConnector(LaneConnector):
    """The same with transfer tasks."""

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return TransferLaneTask


class SimpleSinkConnector(SinkConnector):
    """One task with the connector's config. For tests to say of what class."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self.config]

    def stop(self) -> None:
        """Nothing was opened."""


class RecordLaneTask(SourceTask):
    """Options: `fail.at` (number at which poll raises), `flaky` (each second poll has a retriable
    error), `stop` = "hangs"; `commit.at` and `abort.at` (numbers at which transactions end)."""

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._count = int(config["count"])
        lanes = _lanes(config)
        offsets = self.context.stored_offsets([_lane(lane) for lane in lanes])
        self._next = {
            lane: 0 if offset is None else int(str(offset["last"])) + 1
            for lane, offset in zip(lanes, offsets, strict=True)
        }
        self._stop = threading.Event()
        self._polls = 0
        Events.tell(config["topic"], f"start {config['lanes']} at {sorted(self._next.values())}")

    def poll(self) -> Sequence[SourceRecord] | None:
        self._polls += 1
        if self._config.get("flaky") and self._polls % 2:
            raise BrokerUnavailable("nothing to be had right now")
        if self._config.get("stop") == "hangs" and self._polls > 1:
            Events.release.wait(_HANG_S)
        records = []
        for lane, number in self._next.items():
            if str(number) == self._config.get("fail.at"):
                raise ConnectError(f"number {number} is not to be had")
            if number < self._count:
                records.append(self._record(lane, number))
                self._end_transaction(records[-1], str(number))
                self._next[lane] += 1
        if not records:
            self._stop.wait(1.0)
        return records

    def _end_transaction(self, record: SourceRecord, number: str) -> None:
        transactions = self.context.transactions
        if transactions is None:
            return
        if number == self._config.get("commit.at"):
            transactions.commit_transaction(record)
        if number == self._config.get("abort.at"):
            transactions.abort_transaction(record)

    def _record(self, lane: str, number: int) -> SourceRecord:
        return SourceRecord(
            _lane(lane),
            {"last": number},
            self._config["topic"],
            int(self._config.get("to.partition", "0")),
            None,
            f"{lane}:{number}".encode(),
            1000 + number,
            [("lane", lane.encode()), ("none", None)],
        )

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        if metadata is None:
            Events.tell(self._config["topic"], f"dropped {record.source_offset['last']}")
        else:
            assert metadata.offset >= 0

    def commit(self) -> None:
        Events.tell(self._config["topic"], f"commit {self._config['lanes']}")

    def stopping(self) -> None:
        self._stop.set()

    def stop(self) -> None:
        Events.tell(self._config["topic"], f"stop {self._config['lanes']}")


class TransferLaneTask(TransferTask):
    """Options: `fail.at` as above; `in.place` = "yes" takes new lanes without a restart."""

    def start(self, config: Mapping[str, str]) -> None:
        self._wake = threading.Event()
        self._paused = self._draining = False
        self._sender = RecordSender(self.context.producer_properties())
        self._next: dict[str, int] = {}
        self._futures: dict[str, list[tuple[int, Future[RecordMetadata]]]] = {}
        self._take(config)
        Events.tell(config["topic"], f"start {config['lanes']} at {sorted(self._next.values())}")

    def _take(self, config: Mapping[str, str]) -> None:
        self._config = config
        fresh = [lane for lane in _lanes(config) if lane not in self._next]
        offsets = self.context.stored_offsets([_lane(lane) for lane in fresh])
        self._next = {lane: self._next.get(lane, 0) for lane in _lanes(config)}
        for lane, offset in zip(fresh, offsets, strict=True):
            self._next[lane] = 0 if offset is None else int(str(offset["last"])) + 1

    def step(self, timeout: float) -> None:
        moved = False
        for lane, number in self._next.items():
            if str(number) == self._config.get("fail.at"):
                self._sender.flush(Deadline(_FLUSH_S))
                raise ConnectError(f"number {number} is not to be had")
            if self._paused or self._draining or number >= int(self._config["count"]):
                continue
            value = f"{lane}:{number}".encode()
            future = self._sender.send_future(self._config["topic"], None, value, partition=0)
            future.add_done_callback(lambda _: self._wake.set())
            self._futures.setdefault(lane, []).append((number, future))
            self._next[lane] = number + 1
            moved = True
        if not moved:
            self._wake.wait(timeout)
        self._wake.clear()

    def wake(self) -> None:
        self._wake.set()

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        offsets: list[StoredOffset] = []
        for lane, sent in self._futures.items():
            last = None
            while sent and sent[0][1].done():
                last, future = sent.pop(0)
                future.result()
            if last is not None:
                offsets.append((_lane(lane), {"last": last}))
        answer: Future[list[StoredOffset]] = Future()
        answer.set_result(offsets)
        return answer

    def committed(self) -> None:
        Events.tell(self._config["topic"], f"commit {self._config['lanes']}")

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        if self._config.get("in.place") != "yes":
            return False
        self._take(config)
        Events.tell(config["topic"], f"reconfigure {config['lanes']}")
        return True

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def drain(self, deadline: Deadline) -> None:
        self._draining = True
        self._sender.flush(deadline)

    def stop(self) -> None:
        self._sender.close(Deadline(1.0))
        Events.tell(self._config["topic"], f"stop {self._config['lanes']}")

    def health(self) -> list[PartitionHealth]:
        return [
            PartitionHealth(lane, 0, int(self._config["count"]) - number, None)
            for lane, number in list(self._next.items())
        ]
