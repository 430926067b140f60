"""The keys of Kafka's producers, consumers and admin clients (4.3.1), for validating overrides.

Names, types, defaults and importances are Java's. `connect.clients.config.properties` defines their
effect here.
"""

from __future__ import annotations

from collections.abc import Iterable

from connect.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance, Required
from connect.config.security import SECURITY_KEYS
from connect.config.types import ConfigScalar, ConfigType

__all__ = ["ADMIN_CONFIG_DEF", "CONSUMER_CONFIG_DEF", "PRODUCER_CONFIG_DEF"]

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _LIST, _CLASS, _BOOLEAN = (
    ConfigType.STRING,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.BOOLEAN,
)
_INT, _LONG = ConfigType.INT, ConfigType.LONG

_Row = tuple[str, ConfigType, ConfigScalar | Required, Importance]

_JMX = ("org.apache.kafka.common.metrics.JmxReporter",)

_COMMON: tuple[_Row, ...] = (
    ("client.dns.lookup", _STRING, "use_all_dns_ips", _MEDIUM),
    ("config.providers", _LIST, (), _LOW),
    ("metadata.max.age.ms", _LONG, 300_000, _LOW),
    ("metadata.recovery.rebootstrap.trigger.ms", _LONG, 300_000, _LOW),
    ("metadata.recovery.strategy", _STRING, "rebootstrap", _LOW),
    ("metric.reporters", _LIST, _JMX, _LOW),
    ("metrics.num.samples", _INT, 2, _LOW),
    ("metrics.recording.level", _STRING, "INFO", _LOW),
    ("metrics.sample.window.ms", _LONG, 30_000, _LOW),
    ("reconnect.backoff.max.ms", _LONG, 1_000, _LOW),
    ("reconnect.backoff.ms", _LONG, 50, _LOW),
    ("request.timeout.ms", _INT, 30_000, _MEDIUM),
    ("retry.backoff.max.ms", _LONG, 1_000, _LOW),
    ("retry.backoff.ms", _LONG, 100, _LOW),
    ("send.buffer.bytes", _INT, 131_072, _MEDIUM),
    ("socket.connection.setup.timeout.max.ms", _LONG, 30_000, _MEDIUM),
    ("socket.connection.setup.timeout.ms", _LONG, 10_000, _MEDIUM),
)
_PRODUCER: tuple[_Row, ...] = (
    ("acks", _STRING, "all", _LOW),
    ("batch.size", _INT, 16_384, _MEDIUM),
    ("bootstrap.servers", _LIST, REQUIRED, _HIGH),
    ("buffer.memory", _LONG, 33_554_432, _HIGH),
    ("client.id", _STRING, "", _MEDIUM),
    ("compression.gzip.level", _INT, -1, _MEDIUM),
    ("compression.lz4.level", _INT, 9, _MEDIUM),
    ("compression.type", _STRING, "none", _HIGH),
    ("compression.zstd.level", _INT, 3, _MEDIUM),
    ("connections.max.idle.ms", _LONG, 540_000, _MEDIUM),
    ("delivery.timeout.ms", _INT, 120_000, _MEDIUM),
    ("enable.idempotence", _BOOLEAN, True, _LOW),
    ("enable.metrics.push", _BOOLEAN, True, _LOW),
    ("interceptor.classes", _LIST, (), _LOW),
    ("key.serializer", _CLASS, REQUIRED, _HIGH),
    ("linger.ms", _LONG, 5, _MEDIUM),
    ("max.block.ms", _LONG, 60_000, _MEDIUM),
    ("max.in.flight.requests.per.connection", _INT, 5, _LOW),
    ("max.request.size", _INT, 1_048_576, _MEDIUM),
    ("metadata.max.idle.ms", _LONG, 300_000, _LOW),
    ("partitioner.adaptive.partitioning.enable", _BOOLEAN, True, _LOW),
    ("partitioner.availability.timeout.ms", _LONG, 0, _LOW),
    ("partitioner.class", _CLASS, None, _MEDIUM),
    ("partitioner.ignore.keys", _BOOLEAN, False, _MEDIUM),
    ("receive.buffer.bytes", _INT, 32_768, _MEDIUM),
    ("retries", _INT, 2_147_483_647, _HIGH),
    ("transaction.timeout.ms", _INT, 60_000, _LOW),
    ("transaction.two.phase.commit.enable", _BOOLEAN, False, _LOW),
    ("transactional.id", _STRING, None, _LOW),
    ("value.serializer", _CLASS, REQUIRED, _HIGH),
)
_CONSUMER: tuple[_Row, ...] = (
    ("allow.auto.create.topics", _BOOLEAN, True, _MEDIUM),
    ("auto.commit.interval.ms", _INT, 5_000, _LOW),
    ("auto.offset.reset", _STRING, "latest", _MEDIUM),
    ("bootstrap.servers", _LIST, REQUIRED, _HIGH),
    ("check.crcs", _BOOLEAN, True, _LOW),
    ("client.id", _STRING, "", _LOW),
    ("client.rack", _STRING, "", _LOW),
    ("connections.max.idle.ms", _LONG, 540_000, _MEDIUM),
    ("default.api.timeout.ms", _INT, 60_000, _MEDIUM),
    ("enable.auto.commit", _BOOLEAN, True, _MEDIUM),
    ("enable.metrics.push", _BOOLEAN, True, _LOW),
    ("exclude.internal.topics", _BOOLEAN, True, _MEDIUM),
    ("fetch.max.bytes", _INT, 52_428_800, _MEDIUM),
    ("fetch.max.wait.ms", _INT, 500, _LOW),
    ("fetch.min.bytes", _INT, 1, _HIGH),
    ("group.id", _STRING, None, _HIGH),
    ("group.instance.id", _STRING, None, _MEDIUM),
    ("group.protocol", _STRING, "classic", _HIGH),
    ("group.remote.assignor", _STRING, None, _MEDIUM),
    ("heartbeat.interval.ms", _INT, 3_000, _HIGH),
    ("interceptor.classes", _LIST, (), _LOW),
    ("isolation.level", _STRING, "read_uncommitted", _MEDIUM),
    ("key.deserializer", _CLASS, REQUIRED, _HIGH),
    ("max.partition.fetch.bytes", _INT, 1_048_576, _HIGH),
    ("max.poll.interval.ms", _INT, 300_000, _MEDIUM),
    ("max.poll.records", _INT, 500, _MEDIUM),
    (
        "partition.assignment.strategy",
        _LIST,
        (
            "org.apache.kafka.clients.consumer.RangeAssignor",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        ),
        _MEDIUM,
    ),
    ("receive.buffer.bytes", _INT, 65_536, _MEDIUM),
    ("session.timeout.ms", _INT, 45_000, _HIGH),
    ("share.acknowledgement.mode", _STRING, "implicit", _MEDIUM),
    ("share.acquire.mode", _STRING, "BATCH_OPTIMIZED", _MEDIUM),
    ("value.deserializer", _CLASS, REQUIRED, _HIGH),
)
_ADMIN: tuple[_Row, ...] = (
    ("bootstrap.controllers", _LIST, (), _HIGH),
    ("bootstrap.servers", _LIST, (), _HIGH),
    ("client.id", _STRING, "", _MEDIUM),
    ("connections.max.idle.ms", _LONG, 300_000, _MEDIUM),
    ("default.api.timeout.ms", _INT, 60_000, _MEDIUM),
    ("enable.metrics.push", _BOOLEAN, False, _LOW),
    ("receive.buffer.bytes", _INT, 65_536, _MEDIUM),
    ("retries", _INT, 2_147_483_647, _LOW),
)


def _config_def(kind: str, rows: Iterable[_Row]) -> ConfigDef:
    keys = [
        ConfigKey(
            name, kind_of_value, default, None, importance, f"Setting of the connector's {kind}."
        )
        for name, kind_of_value, default, importance in sorted(rows, key=lambda row: row[0])
    ]
    return ConfigDef([*keys, *SECURITY_KEYS])


PRODUCER_CONFIG_DEF = _config_def("producer", [*_COMMON, *_PRODUCER])
CONSUMER_CONFIG_DEF = _config_def("consumer", [*_COMMON, *_CONSUMER])
ADMIN_CONFIG_DEF = _config_def("admin client", [*_COMMON, *_ADMIN])
