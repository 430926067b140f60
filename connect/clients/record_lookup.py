"""Single records of a topic's partition, read by their offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import confluent_kafka

from connect.clients import factory
from connect.clients.errors import from_librdkafka, translated
from connect.clock import Deadline

__all__ = ["read_records"]

_POLL_S = 0.2
_BATCH = 500
_NEAR = 2_000
"""Records that are read over rather than sought over: a seek drops what was fetched ahead."""


def read_records(
    properties: Mapping[str, str],
    topic: str,
    partition: int,
    offsets: Collection[int],
    deadline: Deadline,
) -> dict[int, tuple[bytes, bytes | None]]:
    """Key and value of the records at these offsets; those that compaction removed are left out.

    `properties`: Java consumer properties. Raises one of `connect.errors`; `DeadlineExceeded` when
    the records did not come in time.
    """
    found: dict[int, tuple[bytes, bytes | None]] = {}
    if not offsets:
        return found
    log = factory.LibrdkafkaLog(properties.get("client.id", topic))
    consumer = factory.consumer(properties, overrides={"enable.partition.eof": True}, log=log)
    try:
        wanted = sorted(offsets)
        at = 0
        while at < len(wanted):
            end = at + 1
            while end < len(wanted) and wanted[end] - wanted[end - 1] <= _NEAR:
                end += 1
            run = wanted[at:end]
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, run[0])])
            _read_run(consumer, set(run), run[-1], found, deadline, topic)
            at = end
    finally:
        log.closing = True
        consumer.close()
    return found


def _read_run(
    consumer: confluent_kafka.Consumer,
    wanted: set[int],
    last: int,
    found: dict[int, tuple[bytes, bytes | None]],
    deadline: Deadline,
    topic: str,
) -> None:
    """Read on until after `last`."""
    while True:
        deadline.check(f"Reading records of topic {topic}")
        with translated(f"Reading topic {topic}"):
            first = consumer.poll(_POLL_S)
            messages = [] if first is None else [first, *consumer.consume(_BATCH, 0)]
        for message in messages:
            error, offset = message.error(), message.offset()
            if error is not None:
                if error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    return
                raise from_librdkafka(error, f"Reading topic {topic}")
            if offset is None or offset > last:
                return
            if offset in wanted:
                found[offset] = (message.key() or b"", message.value())
            if offset == last:
                return
