"""What is written to a cluster of any version, and how it is compared with its copy."""

from __future__ import annotations

from deploy.brokers import KAFKA_VERSION, OLD_VERSIONS
from deploy.brokers.versions import has_kraft, major_minor
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.producing import (
    COMPRESSIONS,
    Record,
    numbered,
    produce,
    produce_transactions,
)
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.topics import alter_topic, end_offsets

__all__ = [
    "GROUP_PLACES",
    "OLD_CODECS",
    "PAIRS",
    "STORES_OLD_FORMATS",
    "TRANSACTED",
    "assert_same_records",
    "authorized",
    "unknown_to_target",
    "write_every_codec",
    "write_old_formats",
    "write_transactions",
]

PAIRS = [pair for old in OLD_VERSIONS for pair in ((old, KAFKA_VERSION), (KAFKA_VERSION, old))]
"""(source, target): each old version on either side, the newest on the other."""

STORES_OLD_FORMATS = [version for version in OLD_VERSIONS if major_minor(version) < (3, 0)]

TRANSACTED = [n for first in (0, 40, 60, 100) for n in range(first, first + 20)]
"""The numbers of the records that `write_transactions` commits."""

GROUP_PLACES = ((50, 28), (52, 30))
"""(source offset, offset of the same record in the copy) in what `write_transactions` writes: 20
records and a marker each, of which the second and the fifth are aborted."""

OLD_CODECS = ("none", "gzip", "snappy", "lz4")
_BATCHES = 3
_RECORDS = 40
_OLD_FORMATS = ("0.9.0", "0.10.2")


def authorized(version: str) -> dict[str, str]:
    """Broker properties for an authorizer under which the tests may do everything."""
    if has_kraft(version):
        name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    else:
        name = "kafka.security.authorizer.AclAuthorizer"
    return {"authorizer.class.name": name, "super.users": "User:ANONYMOUS"}


def unknown_to_target(source: str, target: str) -> dict[str, str]:
    """Topic configs that the source's version knows and the target's does not."""
    if source != KAFKA_VERSION:
        return {"message.downconversion.enable": "true"}
    if major_minor(target) < (3, 6):
        return {"message.timestamp.before.max.ms": "9000000000000"}
    return {}


def _records(partition: int, *, old: bool = False) -> list[Record]:
    """Tombstones and records without a key among them, headers in every other one unless `old`."""
    return [
        Record(
            b"v%d" % n if n % 5 else None,
            b"k%d" % n if n % 3 else None,
            partition,
            1_600_000_000_000 + n,
            [("h", b"%d" % n), ("null", None)] if n % 2 and not old else [],
        )
        for n in range(_RECORDS)
    ]


def write_every_codec(flow: MirroredFlow) -> str:
    """A topic with a partition for each codec."""
    topic = flow.topic("codecs", partitions=len(COMPRESSIONS))
    for partition, codec in enumerate(COMPRESSIONS):
        for _ in range(_BATCHES):
            produce(flow.source_servers, topic, _records(partition), compression=codec)
    return topic


def write_transactions(flow: MirroredFlow) -> str:
    """A topic of six transactions, of which the second and the fifth are aborted."""
    topic = flow.topic("transactions")
    transactions = [(numbered(20, start=20 * n), n % 3 != 1) for n in range(6)]
    produce_transactions(flow.source_servers, topic, transactions)
    return topic


def write_old_formats(flow: MirroredFlow) -> list[str]:
    """Topics with a partition for each of `OLD_CODECS`, whose batches a source of
    `STORES_OLD_FORMATS` stores as Kafka 0.9 and 0.10 did (magic 0 and 1)."""
    topics = []
    for stored in _OLD_FORMATS:
        topic = flow.topic(f"stored-{stored}", partitions=len(OLD_CODECS))
        alter_topic(flow.source_servers, topic, {"message.format.version": stored})
        for partition, codec in enumerate(OLD_CODECS):
            produce(
                flow.source_servers,
                topic,
                _records(partition, old=True),
                compression=codec,
                settings={"enable.idempotence": False},
            )
        topics.append(topic)
    return topics


def assert_same_records(flow: MirroredFlow, topic: str) -> None:
    """The copy has exactly the source's committed records, in each partition, in order."""
    remote = flow.remote(topic)
    for partition in end_offsets(flow.source_servers, topic):
        before, after = (
            [
                _comparable(record)
                for record in read_partition(servers, name, partition, isolation="read_committed")
            ]
            for servers, name in ((flow.source_servers, topic), (flow.target_servers, remote))
        )
        assert len(after) == len(before), f"{remote}-{partition}"
        assert after == before, f"{remote}-{partition}"


def _comparable(record: ReadRecord) -> tuple[object, ...]:
    """Kafka 0.9 stored no timestamps; later formats say so with -1."""
    timestamp = record.timestamp_ms if record.timestamp_type and record.timestamp_ms >= 0 else None
    return (timestamp, record.key, record.value, record.headers)
