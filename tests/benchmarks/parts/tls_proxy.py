"""Prints what the loopback proxy of librdkafka clients costs over TLS (decision 0011). Not a test.

Run: python -m tests.benchmarks.parts.tls_proxy [records] [rounds]
Each round reads and writes the same JSON records of 545 bytes, through clients whose trust store is
in their properties (no proxy) and in a file (a proxy), in an order that changes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import TopicPartition

from connect.clients.librdkafka.factory import consumer, producer
from connect.clock import Deadline
from deploy.brokers import JvmOptions, KafkaCluster
from deploy.brokers.ports import LOOPBACK
from tests.benchmarks.filling import fill
from tests.benchmarks.payloads import make_payload
from tests.support.records.topics import create_topic
from tests.support.security.certificates import Authority
from tests.support.security.secure_listeners import tls_properties

_NO_CODEC = 0
_BATCH_BYTES = 65_536
_READ_AT_ONCE = 1_000
_VALUE = b"x" * 545
_END_S = 600.0


def read(properties: dict[str, str], topic: str, count: int) -> int:
    """Read this many records of a partition. Returns the bytes of their values."""
    client = consumer({**properties, "group.id": "tls-proxy"})
    deadline = Deadline(_END_S)
    try:
        client.assign([TopicPartition(topic, 0, 0)])
        size, left = 0, count
        while left:
            assert not deadline.expired(), f"{left:,} records of {topic} were not read in time"
            for message in client.consume(_READ_AT_ONCE, 1.0):
                assert message.error() is None, message.error()
                size += len(message)
                left -= 1
        return size
    finally:
        client.close()


def write(properties: dict[str, str], topic: str, count: int) -> int:
    """Write this many records to a partition. Returns the bytes of their values."""
    client = producer({**properties, "linger.ms": "5"})
    for _ in range(count):
        while True:
            try:
                client.produce(topic, _VALUE, partition=0)
                break
            except BufferError:
                client.poll(0.05)
    left = client.flush(_END_S)
    assert left == 0, f"{left:,} records were not written in time"
    return count * len(_VALUE)


def measured(what: str, run: Callable[[], int]) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    size = run()
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"{what:24} {size / 1e6:,.0f} MB in {took:6.2f} s ({size / took / 1e6:4.0f} MB/s), "
        f"{cpu:5.2f} s of CPU",
        flush=True,
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    authority = Authority()
    with (
        TemporaryDirectory() as directory,
        KafkaCluster(
            name="tls",
            listeners={"TLS": "SSL"},
            properties=tls_properties("tls", authority, LOOPBACK),
            jvm=JvmOptions(heap="1g", quick=False),
        ) as cluster,
    ):
        store = Path(directory) / "ca.pem"
        store.write_text(authority.pem)
        common = {
            "bootstrap.servers": cluster.bootstrap("TLS"),
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
        }
        clients = [
            ("no proxy", {**common, "ssl.truststore.certificates": authority.pem}),
            ("proxy", {**common, "ssl.truststore.location": str(store)}),
        ]
        servers = cluster.bootstrap_servers
        source, target = create_topic(servers), create_topic(servers)
        filled = fill(
            servers, source, 1, make_payload("json", _NO_CODEC, _BATCH_BYTES), count, _END_S
        )
        for number in range(rounds):
            print(f"round {number + 1}")
            for name, properties in clients[:: 1 if number % 2 else -1]:
                measured(f"read, {name}", partial(read, properties, source, filled))
                measured(f"write, {name}", partial(write, properties, target, filled))


if __name__ == "__main__":
    main()
