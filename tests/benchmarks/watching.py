"""Watches a copy from outside: end offsets at the target, CPU and memory of processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

import psutil
from kafka.protocol.consumer import ListOffsetsRequest

from connect.clients.wire.connection import WireConnection, open_connection
from connect.clock import Deadline
from tests.support.copier.copying import wire

__all__ = ["EndOffsets", "ProcessUse", "Usage"]

_LATEST = -1
_CALL_S = 20.0
_MIB = 1024 * 1024
# ListOffsets before version 7 is not flexible and has all that is needed.
_VERSION = 5


class EndOffsets:
    """Sums the end offsets of a topic on a cluster of one broker, on a connection of its own.

    A topic or partition that does not exist yet counts as empty. Not thread-safe.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        settings = wire(servers)
        host, port = settings.bootstrap[0]
        self._topic = topic
        self._partitions = partitions
        self._connection: WireConnection = open_connection(host, port, settings, Deadline(_CALL_S))

    def total(self) -> int:
        """Records at the target, for topics without gaps."""
        return sum(max(0, end) for end in self._ends())

    def led(self) -> bool:
        """Whether the broker leads all partitions already: metadata says so a little earlier."""
        return len(self._ends()) == self._partitions

    def _ends(self) -> list[int]:
        """End offsets of the partitions that answer."""
        topic = ListOffsetsRequest.ListOffsetsTopic
        request = ListOffsetsRequest(
            version=_VERSION,
            replica_id=-1,
            isolation_level=0,
            topics=[
                topic(
                    name=self._topic,
                    partitions=[
                        topic.ListOffsetsPartition(
                            partition_index=number, current_leader_epoch=-1, timestamp=_LATEST
                        )
                        for number in range(self._partitions)
                    ],
                )
            ],
        )
        response = self._connection.call(request, Deadline(_CALL_S))
        return [
            part.offset
            for found in response.topics
            for part in found.partitions
            if part.error_code == 0
        ]

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Usage(NamedTuple):
    """`cpu_s`: user and system seconds since the process began. `rss_mib`: resident now."""

    cpu_s: float
    rss_mib: float


class ProcessUse:
    """CPU and memory of a process, of those beside it, and of the children of all."""

    def __init__(self, pid: int, beside: Sequence[int] = ()) -> None:
        self._processes = [psutil.Process(each) for each in (pid, *beside)]

    def now(self) -> Usage:
        """Raises `psutil.NoSuchProcess` once one of the processes has ended."""
        cpu, rss = 0.0, 0
        for process in self._processes:
            own_cpu, own_rss = _use(process)
            cpu, rss = cpu + own_cpu, rss + own_rss
            for child in process.children(recursive=True):
                # One that has ended meanwhile counts no more.
                with suppress(psutil.NoSuchProcess):
                    its_cpu, its_rss = _use(child)
                    cpu, rss = cpu + its_cpu, rss + its_rss
        return Usage(cpu, rss / _MIB)


def _use(process: psutil.Process) -> tuple[float, int]:
    """CPU seconds until now, and resident bytes."""
    with process.oneshot():
        times = process.cpu_times()
        return times.user + times.system, process.memory_info().rss
