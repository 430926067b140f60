"""The table of librdkafka properties for Java client properties.

A value beyond librdkafka's limit is set to the limit, because that is closest to the Java meaning
(usually "as long as possible").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from connect.config.definition import ConfigKey
from connect.config.types import ConfigScalar, ConfigType, invalid_value
from connect.config.validators import OneOf, Range, Validator, ValidList

__all__ = ["COMMON", "KINDS", "WITHOUT_COUNTERPART", "ClientKind", "Mapped", "is_our_own"]

ClientKind = Literal["producer", "consumer", "admin"]
Convert = Callable[[str, ConfigScalar], Mapping[str, Any]]

_INT_MAX: Final = 2_147_483_647


@dataclass(frozen=True, slots=True)
class Mapped:
    """A Java key, and the conversion of its parsed value to librdkafka properties."""

    key: ConfigKey
    convert: Convert


def _mapped(
    name: str, kind: ConfigType, convert: Convert, validator: Validator | None = None
) -> tuple[str, Mapped]:
    return name, Mapped(ConfigKey(name, kind, None, validator), convert)


def _same(name: str, kind: ConfigType, validator: Validator | None = None) -> tuple[str, Mapped]:
    return _mapped(name, kind, lambda key, value: {key: value}, validator)


def _lowered(name: str, allowed: tuple[str, ...]) -> tuple[str, Mapped]:
    return _mapped(
        name,
        ConfigType.STRING,
        lambda key, value: {key: str(value).lower()},
        OneOf(allowed, ignore_case=True),
    )


def _number(
    name: str,
    low: int,
    high: int,
    *targets: str,
    kind: ConfigType = ConfigType.INT,
    minimum: int | None = 0,
) -> tuple[str, Mapped]:
    """Map a number to each of `targets` (or to its own name), within librdkafka's limits.

    `minimum` is the smallest value that Java accepts.
    """

    def convert(key: str, value: ConfigScalar) -> Mapping[str, Any]:
        assert isinstance(value, int)
        return {target: min(max(value, low), high) for target in targets or (key,)}

    return _mapped(name, kind, convert, None if minimum is None else Range(minimum))


_LONG = ConfigType.LONG


def _socket_buffer(name: str, target: str) -> tuple[str, Mapped]:
    """Map a socket buffer size: Java's -1 (the system's default) is librdkafka's 0."""
    return _number(name, 0, 100_000_000, target, minimum=-1)


def _bootstrap(key: str, value: ConfigScalar) -> Mapping[str, Any]:
    assert isinstance(value, tuple)
    return {key: ",".join(value)}


def _metadata_max_age(_key: str, value: ConfigScalar) -> Mapping[str, Any]:
    assert isinstance(value, int)
    # librdkafka refreshes metadata at one interval and drops it after another one, three times as
    # long.
    refresh = min(max(value, 10), 3_600_000)
    return {
        "topic.metadata.refresh.interval.ms": refresh,
        "metadata.max.age.ms": min(3 * refresh, 86_400_000),
    }


def _idle(_key: str, value: ConfigScalar) -> Mapping[str, Any]:
    assert isinstance(value, int)
    return {"connections.max.idle.ms": min(max(value, 0), _INT_MAX)}


COMMON: dict[str, Mapped] = dict(
    (
        _mapped("bootstrap.servers", ConfigType.LIST, _bootstrap, ValidList(allow_empty=False)),
        _same("client.id", ConfigType.STRING),
        _same(
            "client.dns.lookup",
            ConfigType.STRING,
            OneOf(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        ),
        _mapped("connections.max.idle.ms", _LONG, _idle),
        _mapped("metadata.max.age.ms", _LONG, _metadata_max_age, Range(0)),
        _lowered("metadata.recovery.strategy", ("REBOOTSTRAP", "NONE")),
        _number("metadata.recovery.rebootstrap.trigger.ms", 0, _INT_MAX, kind=_LONG),
        _number("reconnect.backoff.ms", 0, 3_600_000, kind=_LONG),
        _number("reconnect.backoff.max.ms", 0, 3_600_000, kind=_LONG),
        _number("retry.backoff.ms", 1, 300_000, kind=_LONG),
        _number("retry.backoff.max.ms", 1, 300_000, kind=_LONG),
        _number("request.timeout.ms", 10, 300_000, "socket.timeout.ms"),
        _socket_buffer("send.buffer.bytes", "socket.send.buffer.bytes"),
        _socket_buffer("receive.buffer.bytes", "socket.receive.buffer.bytes"),
        _number("socket.connection.setup.timeout.ms", 1000, _INT_MAX, kind=_LONG, minimum=None),
        _same("enable.metrics.push", ConfigType.BOOLEAN),
    )
)


def _buffer_memory(_key: str, value: ConfigScalar) -> Mapping[str, Any]:
    assert isinstance(value, int)
    return {"queue.buffering.max.kbytes": min(max(-(-value // 1024), 1), _INT_MAX)}


def _request_timeout(_key: str, value: ConfigScalar) -> Mapping[str, Any]:
    assert isinstance(value, int)
    return {
        "socket.timeout.ms": min(max(value, 10), 300_000),
        "request.timeout.ms": min(max(value, 1), 900_000),
    }


_PRODUCER = dict(
    (
        _same("acks", ConfigType.STRING, OneOf(("all", "-1", "0", "1"))),
        _number("batch.size", 1, _INT_MAX),
        _mapped("buffer.memory", _LONG, _buffer_memory, Range(0)),
        _same(
            "compression.type",
            ConfigType.STRING,
            OneOf(("none", "gzip", "snappy", "lz4", "zstd")),
        ),
        _number("delivery.timeout.ms", 0, _INT_MAX),
        _same("enable.idempotence", ConfigType.BOOLEAN),
        _number("linger.ms", 0, 900_000, kind=_LONG),
        _number("max.in.flight.requests.per.connection", 1, 1_000_000, minimum=1),
        _number("max.request.size", 1000, 1_000_000_000, "message.max.bytes"),
        _mapped("request.timeout.ms", ConfigType.INT, _request_timeout, Range(0)),
        _number("retries", 0, _INT_MAX),
        _number("transaction.timeout.ms", 1000, _INT_MAX, minimum=None),
        _same("transactional.id", ConfigType.STRING),
    )
)


def _auto_offset_reset(key: str, value: ConfigScalar) -> Mapping[str, Any]:
    return {key: "error" if value == "none" else value}


def _fetch_max_bytes(_key: str, value: ConfigScalar) -> Mapping[str, Any]:
    assert isinstance(value, int)
    # librdkafka requires message.max.bytes <= fetch.max.bytes <= receive.message.max.bytes - 512.
    fetch = min(max(value, 1000), 2_147_483_135)
    return {
        "fetch.max.bytes": fetch,
        "message.max.bytes": min(fetch, 1_000_000),
        "receive.message.max.bytes": max(fetch + 512, 100_000_000),
    }


def _assignors(key: str, value: ConfigScalar) -> Mapping[str, Any]:
    assert isinstance(value, tuple)
    names = {
        "RangeAssignor": "range",
        "RoundRobinAssignor": "roundrobin",
        "CooperativeStickyAssignor": "cooperative-sticky",
    }
    known = [names[name] for element in value if (name := element.rpartition(".")[2]) in names]
    if not known:
        raise invalid_value(key, value, f"must be among {', '.join(names)}")
    # librdkafka does not mix cooperative and eager assignors.
    return {key: ",".join(known[:1] if "cooperative-sticky" in known else known)}


_CONSUMER = dict(
    (
        _same("allow.auto.create.topics", ConfigType.BOOLEAN),
        _number("auto.commit.interval.ms", 0, 86_400_000),
        _mapped(
            "auto.offset.reset",
            ConfigType.STRING,
            _auto_offset_reset,
            OneOf(("latest", "earliest", "none")),
        ),
        _same("check.crcs", ConfigType.BOOLEAN),
        _same("client.rack", ConfigType.STRING),
        _same("enable.auto.commit", ConfigType.BOOLEAN),
        _mapped("fetch.max.bytes", ConfigType.INT, _fetch_max_bytes, Range(0)),
        _number("fetch.max.wait.ms", 0, 300_000, "fetch.wait.max.ms"),
        _number("fetch.min.bytes", 1, 100_000_000),
        _same("group.id", ConfigType.STRING),
        _same("group.instance.id", ConfigType.STRING),
        _lowered("group.protocol", ("CONSUMER", "CLASSIC")),
        _same("group.remote.assignor", ConfigType.STRING),
        _number("heartbeat.interval.ms", 1, 3_600_000, minimum=None),
        _same(
            "isolation.level",
            ConfigType.STRING,
            OneOf(("read_committed", "read_uncommitted")),
        ),
        _number("max.partition.fetch.bytes", 1, 1_000_000_000),
        _number("max.poll.interval.ms", 1, 86_400_000, minimum=1),
        _mapped("partition.assignment.strategy", ConfigType.LIST, _assignors),
        _number("session.timeout.ms", 1, 3_600_000, minimum=None),
    )
)

KINDS: dict[ClientKind, dict[str, Mapped]] = {
    "producer": {**COMMON, **_PRODUCER},
    "consumer": {**COMMON, **_CONSUMER},
    "admin": COMMON,
}

_TICKETS = "tickets are renewed after half their life, when a connection is opened"

# Java client keys without a counterpart here, with the reason if it helps.
WITHOUT_COUNTERPART: dict[str, str] = {
    "auto.include.jmx.reporter": "metrics are on the /metrics page",
    "default.api.timeout.ms": "each admin call has its own timeout",
    "exclude.internal.topics": "no consumer here subscribes by pattern",
    "interceptor.classes": "Java classes cannot be used here",
    "key.deserializer": "records are handled as bytes",
    "key.serializer": "records are handled as bytes",
    "max.block.ms": "sends wait while the buffer is full",
    "max.poll.records": "records are consumed in batches",
    "metadata.max.idle.ms": "",
    "metric.reporters": "metrics are on the /metrics page",
    "metrics.num.samples": "metrics are on the /metrics page",
    "metrics.recording.level": "metrics are on the /metrics page",
    "metrics.sample.window.ms": "metrics are on the /metrics page",
    "partitioner.adaptive.partitioning.enable": "records keep their partition",
    "partitioner.availability.timeout.ms": "records keep their partition",
    "partitioner.class": "records keep their partition",
    "partitioner.ignore.keys": "records keep their partition",
    "retries": "calls are retried until their timeout",
    "sasl.kerberos.kinit.cmd": "libkrb5 gets the tickets, and no command is run",
    "sasl.kerberos.min.time.before.relogin": _TICKETS,
    "sasl.kerberos.ticket.renew.jitter": _TICKETS,
    "sasl.kerberos.ticket.renew.window.factor": _TICKETS,
    "sasl.login.callback.handler.class": "sasl.oauthbearer.* configure how tokens are fetched",
    "sasl.login.read.timeout.ms": "sasl.login.connect.timeout.ms bounds the whole request",
    "sasl.login.refresh.buffer.seconds": "tokens are renewed after 80 % of their life",
    "sasl.login.refresh.min.period.seconds": "tokens are renewed after 80 % of their life",
    "sasl.login.refresh.window.factor": "tokens are renewed after 80 % of their life",
    "sasl.login.refresh.window.jitter": "tokens are renewed after 80 % of their life",
    "sasl.login.retry.backoff.max.ms": "reconnect.backoff.* control reconnecting",
    "sasl.login.retry.backoff.ms": "reconnect.backoff.* control reconnecting",
    "security.providers": "Java classes cannot be used here",
    "socket.connection.setup.timeout.max.ms": "the connection setup timeout is constant",
    "ssl.keymanager.algorithm": "OpenSSL provides TLS",
    "ssl.provider": "OpenSSL provides TLS",
    "ssl.secure.random.implementation": "OpenSSL provides TLS",
    "ssl.trustmanager.algorithm": "OpenSSL provides TLS",
    "transaction.two.phase.commit.enable": "",
    "value.deserializer": "records are handled as bytes",
    "value.serializer": "records are handled as bytes",
}

_BYTES = "org.apache.kafka.common.serialization.ByteArray"
_SAME_AS_OURS: dict[str, tuple[str, ...]] = {
    "key.deserializer": (_BYTES + "Deserializer",),
    "key.serializer": (_BYTES + "Serializer",),
    "value.deserializer": (_BYTES + "Deserializer",),
    "value.serializer": (_BYTES + "Serializer",),
    "max.block.ms": ("9223372036854775807",),
    "metric.reporters": ("org.apache.kafka.common.metrics.JmxReporter", ""),
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ),
    "ssl.trustmanager.algorithm": ("PKIX",),
    "ssl.keymanager.algorithm": ("SunX509",),
}


def is_our_own(name: str, value: str) -> bool:
    """Return whether the value asks for the behaviour we have anyway, so that no warning is
    needed.
    """
    return value.strip() in _SAME_AS_OURS.get(name, ())
