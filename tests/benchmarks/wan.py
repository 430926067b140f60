"""One partition over a long way: how fast it is copied at 100 ms round trip, and without.

    python -m tests.benchmarks.wan [--round-trip-ms 100] [--megabytes 1200] [--buffer-mb 32]
                                  [--far-buffer-mb 64]

The source's broker is behind a link of ours (`tests/support/copier/long_link.py`); copier and
target are here. The broker's socket buffers are left to its system
(`socket.send.buffer.bytes=-1`), whose limits have room for bandwidth x delay: Kafka's default of
100 KiB allows 1 to 2 MB/s at 100 ms, whatever the mirror does. Needs root.
"""

from __future__ import annotations

import argparse
import os
import time

from connect.clients.config.settings import FetchSettings
from deploy.brokers import JvmOptions, KafkaCluster
from tests.support.copier.copying import CopyRun
from tests.support.copier.long_link import LongLink
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic, end_offset, unique

__all__ = ["main"]

_RECORD_BYTES = 10_000
_BATCH_BYTES = 256 * 1024
_HALF = 2
_FIXED = FetchSettings(max_partition_fetch_bytes=4 * 1024 * 1024 + 1)
"""As before fetches were sized by the round trip: what is set by hand stays."""
_PROPERTIES = {
    "log.retention.ms": "-1",
    "socket.send.buffer.bytes": "-1",
    "socket.receive.buffer.bytes": "-1",
    "message.max.bytes": str(8 << 20),
}


def _fill(servers: str, megabytes: int) -> str:
    topic = create_topic(servers)
    value = os.urandom(_RECORD_BYTES)
    count = megabytes * 1_000_000 // _RECORD_BYTES
    settings: dict[str, str | int | bool] = {"batch.size": _BATCH_BYTES, "linger.ms": 50}
    produce(servers, topic, (Record(value) for _ in range(count)), settings=settings)
    return topic


def _rate(
    source: str, target: str, topic: str, fetch: FetchSettings, buffer_mb: int, far_mb: int
) -> float:
    """MB/s of the second half: the first is for connections, and sizes that are measured."""
    copy = create_topic(target, name=unique("copy"))
    end = end_offset(source, topic)
    far = far_mb << 20
    run = CopyRun(source, target, fetch=fetch, buffer_bytes=buffer_mb << 20, far_buffer_bytes=far)
    run.add(topic, copy)
    with run:
        run.wait({(topic, 0): end // _HALF}, 300.0)
        began, first = time.monotonic(), run.positions()[topic, 0]
        run.wait({(topic, 0): end}, 300.0)
        took = time.monotonic() - began
    return (end - first) * _RECORD_BYTES / 1e6 / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--round-trip-ms", type=float, default=100.0)
    parser.add_argument("--megabytes", type=int, default=1_200)
    parser.add_argument("--buffer-mb", type=int, default=32)
    parser.add_argument("--far-buffer-mb", type=int, default=64, help="for a long way")
    given = parser.parse_args()
    jvm = JvmOptions(quick=False)
    with (
        LongLink(0.0) as link,
        KafkaCluster(name="far", properties=_PROPERTIES, places={1: link.place}, jvm=jvm) as far,
        KafkaCluster(name="near", properties=_PROPERTIES, jvm=jvm) as near,
    ):
        source, target = far.bootstrap_servers, near.bootstrap_servers
        topic = _fill(source, given.megabytes)
        for round_trip_ms in (0.0, given.round_trip_ms):
            link.delay(round_trip_ms / 1000)
            for name, fetch, far_mb in (
                ("4 MiB", _FIXED, given.buffer_mb),
                ("sized", FetchSettings(), given.far_buffer_mb),
            ):
                rate = _rate(source, target, topic, fetch, given.buffer_mb, far_mb)
                print(f"round trip {round_trip_ms:5.0f} ms, {name}: {rate:7.1f} MB/s", flush=True)


if __name__ == "__main__":
    main()
