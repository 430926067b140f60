"""A sink connector that tells the test what it was given."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from connect.errors import BrokerUnavailable, ConnectError
from connect.plugin import SinkRecord, SinkTask, TopicPartition
from tests.support.workers.plugins import Events, SimpleSinkConnector

__all__ = ["TellingSinkConnector", "TellingSinkTask"]


class TellingSinkConnector(SimpleSinkConnector):
    """One task, which tells what it was given."""

    def task_class(self) -> type[SinkTask]:
        return TellingSinkTask


class TellingSinkTask(SinkTask):
    """Options: `mode` = "fails", "refuses" (each second put), "forgets" (the first commit) or
    "slow" (the first put takes `silent.ms`)."""

    def start(self, config: Mapping[str, str]) -> None:
        self._mode, self._topic = config.get("mode"), config["topic"]
        self._silent_s = int(config.get("silent.ms", "0")) / 1000
        self._puts = self._commits = 0

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell(f"open {sorted(partition for _, partition in partitions)}")

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._puts += 1
        if self._mode == "fails":
            raise ConnectError("this sink is full")
        if self._mode == "refuses" and self._puts % 2:
            self.context.retry_after(0.1)
            raise BrokerUnavailable("the other side is away")
        for record in records:
            self._tell(f"put {record.original_offset} {record.value!r}")
        if self._mode == "slow" and self._puts == 1:
            threading.Event().wait(self._silent_s)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if offsets:
            self._commits += 1
            if self._mode == "forgets" and self._commits == 1:
                raise ConnectError("what was put is lost")
            self._tell(f"commit {sorted(offsets.values())}")
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell(f"close {sorted(partition for _, partition in partitions)}")

    def stop(self) -> None:
        """Nothing was opened."""

    def _tell(self, event: str) -> None:
        Events.tell(self._topic, event)
