"""Measures how long events take from their producer to a consumer of the copy."""

from __future__ import annotations

import threading
from collections import deque

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["LatencyProbe", "percentile"]

_SAMPLES = 50_000
_POLL_S = 0.1
_STOP_S = 10.0


def percentile(values: list[int], share: float) -> int:
    """Return the value below which `share` of the values lie. `values` must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class LatencyProbe:
    """Reads one partition of the copy from its end, on its own thread, and compares each record's
    timestamp with the clock. Both clusters are on this machine, so the clocks agree."""

    def __init__(
        self, servers: str, topic: str, partition: int, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
        self._stopping = threading.Event()
        self._milliseconds: deque[int] = deque(maxlen=_SAMPLES)
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "demo-latency",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._partition = TopicPartition(topic, partition, OFFSET_END)
        self._thread = threading.Thread(target=self._run, name="latency-probe", daemon=True)

    @property
    def milliseconds(self) -> list[int]:
        """Return the measured latencies. Call after `close`."""
        return list(self._milliseconds)

    def start(self) -> None:
        """Begin to measure. Existing records do not count."""
        self._thread.start()

    def close(self) -> None:
        """End the thread. May be called repeatedly, and without `start`."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        self._consumer.assign([self._partition])
        while not self._stopping.is_set():
            message = self._consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                self._milliseconds.append(self._clock.now_ms() - message.timestamp()[1])
        self._consumer.close()
