"""Client properties of MirrorMaker 1's files: old keys translated, the tool's defaults set.

Kafka 0.7 and 0.8 had other keys than today's Java clients, and found brokers through ZooKeeper. A
key with a successor is translated, a key without a meaning is named in a warning. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect.errors import ConfigError

__all__ = [
    "OLD_CONSUMER_KEYS",
    "OLD_PRODUCER_KEYS",
    "ClientFile",
    "OldKey",
    "Translate",
    "consumer",
    "producer",
]


@dataclass(frozen=True, slots=True)
class OldKey:
    """A key of Kafka 0.7 or 0.8. `successor`: today's key; None: it has no meaning any more.
    `convert`: today's value of an old value."""

    successor: str | None
    note: str = ""
    convert: Callable[[str], str] = str.strip


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The properties of one file as Java's clients know them now, and what to tell the user."""

    properties: Mapping[str, str] = field(repr=False)
    warnings: tuple[str, ...]


Translate = Callable[[str, Mapping[str, str]], ClientFile]
"""`consumer` or `producer`: (name of the file, its properties)."""


def _reset(value: str) -> str:
    return {"smallest": "earliest", "largest": "latest"}.get(value.strip(), value.strip())


def _codec(value: str) -> str:
    return {"0": "none", "1": "gzip", "2": "snappy"}.get(value.strip(), value.strip())


def _strategy(value: str) -> str:
    names = {"range": "RangeAssignor", "roundrobin": "RoundRobinAssignor"}
    name = names.get(value.strip().lower())
    return value.strip() if name is None else f"org.apache.kafka.clients.consumer.{name}"


_OLD_PROTOCOLS = {"PLAINTEXTSASL": "SASL_PLAINTEXT", "SSLSASL": "SASL_SSL"}
"""Names that Hortonworks' Kafka had before Apache's Kafka 0.9."""
_BYTES_ARE_FORWARDED = "batches are forwarded as bytes anyway"
_NO_QUEUE = "there is no queue between consumer and producer"
_ZOOKEEPER = "ZooKeeper is not used"
_WITHOUT = {
    name: OldKey(None, _ZOOKEEPER)
    for name in (
        "zk.connect",
        "zk.connectiontimeout.ms",
        "zk.sessiontimeout.ms",
        "zk.synctime.ms",
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "zookeeper.session.timeout.ms",
        "zookeeper.sync.time.ms",
    )
}

OLD_CONSUMER_KEYS: Mapping[str, OldKey] = {
    **_WITHOUT,
    "groupid": OldKey("group.id"),
    "autooffset.reset": OldKey("auto.offset.reset", convert=_reset),
    "fetch.size": OldKey("max.partition.fetch.bytes"),
    "fetch.message.max.bytes": OldKey("max.partition.fetch.bytes"),
    "fetch.wait.max.ms": OldKey("fetch.max.wait.ms"),
    "socket.buffersize": OldKey("receive.buffer.bytes"),
    "socket.receive.buffer.bytes": OldKey("receive.buffer.bytes"),
    "socket.timeout.ms": OldKey("request.timeout.ms"),
    "refresh.leader.backoff.ms": OldKey("retry.backoff.ms"),
    "backoff.increment.ms": OldKey("retry.backoff.ms"),
    "auto.commit.enabled": OldKey(None, "offsets are committed after the target acknowledged"),
    "auto.commit.enable": OldKey(None, "offsets are committed after the target acknowledged"),
    "autocommit.enable": OldKey(None, "offsets are committed after the target acknowledged"),
    "autocommit.interval.ms": OldKey(None, "use --offset.commit.interval.ms"),
    "auto.commit.interval.ms": OldKey(None, "use --offset.commit.interval.ms"),
    "enable.auto.commit": OldKey(None, "offsets are committed after the target acknowledged"),
    "consumer.timeout.ms": OldKey(None, "the mirror waits for new records without a time limit"),
    "consumer.id": OldKey("client.id"),
    "shallow.iterator.enable": OldKey(None, _BYTES_ARE_FORWARDED),
    "shallowiterator.enable": OldKey(None, _BYTES_ARE_FORWARDED),
    "mirror.topics.whitelist": OldKey(None, "use --include"),
    "mirror.topics.blacklist": OldKey(None, "use --exclude"),
    "mirror.consumer.numthreads": OldKey(None, "use --num.streams"),
    "queuedchunks.max": OldKey(None, _NO_QUEUE),
    "queued.max.message.chunks": OldKey(None, _NO_QUEUE),
    "queued.max.messages": OldKey(None, _NO_QUEUE),
    "rebalance.retries.max": OldKey(None, "the group's coordinator leads rebalances"),
    "rebalance.max.retries": OldKey(None, "the group's coordinator leads rebalances"),
    "rebalance.backoff.ms": OldKey(None, "the group's coordinator leads rebalances"),
    "offsets.storage": OldKey(None, "offsets are in the group on the source"),
    "dual.commit.enabled": OldKey(None, "offsets are in the group on the source"),
    "offsets.channel.backoff.ms": OldKey(None, "offsets are in the group on the source"),
    "offsets.channel.socket.timeout.ms": OldKey(None, "offsets are in the group on the source"),
    "offsets.commit.max.retries": OldKey(None, "offsets are in the group on the source"),
    "num.consumer.fetchers": OldKey(
        None, "one connection for each broker fetches, and a second while partitions are far behind"
    ),
    "exclude.internal.topics": OldKey(None, "Kafka's internal topics are never mirrored"),
}

OLD_PRODUCER_KEYS: Mapping[str, OldKey] = {
    **_WITHOUT,
    "broker.list": OldKey("bootstrap.servers"),
    "metadata.broker.list": OldKey("bootstrap.servers"),
    "compression.codec": OldKey("compression.type", convert=_codec),
    "queue.time": OldKey("linger.ms"),
    "queue.buffering.max.ms": OldKey("linger.ms"),
    "request.required.acks": OldKey("acks"),
    "max.message.size": OldKey("max.request.size"),
    "buffer.size": OldKey("send.buffer.bytes"),
    "send.buffer.size": OldKey("send.buffer.bytes"),
    "message.send.max.retries": OldKey(None, "a send is retried without limit"),
    "num.retries": OldKey(None, "a send is retried without limit"),
    "topic.metadata.refresh.interval.ms": OldKey("metadata.max.age.ms"),
    "connect.timeout.ms": OldKey("socket.connection.setup.timeout.ms"),
    "socket.timeout.ms": OldKey("request.timeout.ms"),
    "producer.type": OldKey(
        None, "records are sent asynchronously, and committed when acknowledged"
    ),
    "queue.size": OldKey(None, _NO_QUEUE),
    "queue.enqueuetimeout.ms": OldKey(
        None, "a full buffer makes the mirror wait; nothing is dropped"
    ),
    "queue.enqueueTimeout.ms": OldKey(
        None, "a full buffer makes the mirror wait; nothing is dropped"
    ),
    "queue.enqueue.timeout.ms": OldKey(
        None, "a full buffer makes the mirror wait; nothing is dropped"
    ),
    "queue.buffering.max.messages": OldKey(None, _NO_QUEUE),
    "block.on.buffer.full": OldKey(None, "a full buffer makes the mirror wait; nothing is dropped"),
    "batch.num.messages": OldKey(None, _BYTES_ARE_FORWARDED),
    "compressed.topics": OldKey(None, "one compression applies to all topics"),
    "serializer.class": OldKey(None, "records are handled as bytes"),
    "key.serializer.class": OldKey(None, "records are handled as bytes"),
    "partitioner.class": OldKey(
        None,
        "partitions are kept, or chosen from the key as by Java's default partitioner where the "
        "target has another number of them",
    ),
    "max.block.ms": OldKey(None, "a full buffer makes the mirror wait; nothing is dropped"),
}


def consumer(name: str, given: Mapping[str, str], *, stream: int = 0) -> ClientFile:
    """Return the properties of `--consumer.config`. `name`: the file's, for messages. `stream`: the
    number of this member on the host. Raises `ConfigError` without the keys that name cluster and
    group."""
    properties, warnings = _translated(name, given, OLD_CONSUMER_KEYS)
    _require_brokers(name, properties, given, "source")
    if not properties.get("group.id", "").strip():
        raise ConfigError(
            f"{name}: group.id is missing. It names the consumer group on the source whose offsets "
            "say what is mirrored; write for example group.id=mirror-maker",
            key="group.id",
        )
    for key, convert in (
        ("auto.offset.reset", _reset),
        ("partition.assignment.strategy", _strategy),
    ):
        if key in properties:
            properties[key] = convert(properties[key])
    # As MirrorMaker 1 named its consumers; member IDs begin with it.
    properties.setdefault("client.id", f"{properties['group.id']}-{stream}")
    # What Java's consumer does with no property; a mirror is often meant to begin with the oldest.
    properties.setdefault("auto.offset.reset", "latest")
    return ClientFile(properties, tuple(warnings))


def producer(name: str, given: Mapping[str, str]) -> ClientFile:
    """Return the properties of `--producer.config`, with MirrorMaker 1's defaults against data
    loss. Raises `ConfigError` without bootstrap.servers."""
    properties, warnings = _translated(name, given, OLD_PRODUCER_KEYS)
    _require_brokers(name, properties, given, "target")
    properties.setdefault("acks", "all")
    for key in ("delivery.timeout.ms", "retries"):
        if key in properties:
            warnings.append(f"{name}: {key} has no effect: a send is retried without limit")
            del properties[key]
    properties["delivery.timeout.ms"] = "2147483647"
    return ClientFile(properties, tuple(warnings))


def _translated(
    name: str, given: Mapping[str, str], table: Mapping[str, OldKey]
) -> tuple[dict[str, str], list[str]]:
    properties: dict[str, str] = {}
    warnings = []
    for key, value in given.items():
        old = table.get(key)
        if old is None:
            properties[key] = value.strip()
        elif old.successor is None:
            warnings.append(f"{name}: {key} has no effect: {old.note}")
    for key, value in given.items():
        old = table.get(key)
        if old is None or old.successor is None:
            continue
        if old.successor in properties:
            warnings.append(f"{name}: {key} has no effect beside {old.successor}")
            continue
        properties[old.successor] = old.convert(value)
        warnings.append(
            f"{name}: {key} is an old key; reading it as "
            f"{old.successor}={properties[old.successor]}"
        )
    protocol = properties.get("security.protocol", "")
    today = _OLD_PROTOCOLS.get(protocol.upper())
    if today is not None:
        properties["security.protocol"] = today
        warnings.append(
            f"{name}: security.protocol={protocol} is an old name; reading it as {today}"
        )
    return properties, warnings


def _require_brokers(
    name: str, properties: Mapping[str, str], given: Mapping[str, str], side: str
) -> None:
    if properties.get("bootstrap.servers", "").strip():
        return
    zookeeper = next((key for key in ("zk.connect", "zookeeper.connect") if key in given), None)
    reason = (
        "bootstrap.servers is missing"
        if zookeeper is None
        else f"{zookeeper} names ZooKeeper, which is not used any more"
    )
    raise ConfigError(
        f"{name}: {reason}. Write the address of brokers of the {side} cluster instead: "
        "bootstrap.servers=HOST:9092",
        key="bootstrap.servers",
    )
