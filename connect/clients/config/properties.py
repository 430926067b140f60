"""Convert Java client properties to librdkafka properties and to typed settings.

Values are validated as in Java. A Java client key without a counterpart here is warned about once
per process. Keys that no Kafka client knows are ignored.

librdkafka keeps Java's defaults where they matter for correctness: `isolation.level`
read_uncommitted, CRC checks, idempotent producers, no leftover groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from connect.clients.config.librdkafka_keys import (
    COMMON,
    KINDS,
    WITHOUT_COUNTERPART,
    ClientKind,
    Mapped,
    is_our_own,
)
from connect.clients.config.sasl_properties import (
    is_beyond_librdkafka,
    librdkafka_sasl,
    sasl_mechanism,
    wire_sasl,
)
from connect.clients.config.settings import (
    AutoOffsetReset,
    Compression,
    CompressionCodec,
    FetchSettings,
    ProduceSettings,
    WireSettings,
)
from connect.clients.security.store_files import store_files
from connect.clients.security.tls import librdkafka_tls, ssl_context, verifies_hostname
from connect.clients.warn_once import warn_once
from connect.config.definition import ConfigDef, ConfigKey, ParsedConfig
from connect.config.security import SECURITY_PROTOCOLS
from connect.config.types import ConfigType, invalid_value
from connect.config.validators import OneOf, OrNull, Range
from connect.errors import ConfigError

__all__ = [
    "FetchSettings",
    "ProduceSettings",
    "WireSettings",
    "bootstrap_servers",
    "fetch_settings",
    "librdkafka_config",
    "needs_proxy",
    "produce_settings",
    "wire_settings",
]


_ADDRESS = re.compile(r"(?:.*://)?(?:\[([0-9A-Fa-f:.%]+)\]|([0-9A-Za-z\-%._]+)):([0-9]{1,5})")
_SERVERS = "bootstrap.servers"
_SECURITY_PROTOCOL = ConfigKey(
    "security.protocol",
    ConfigType.STRING,
    "PLAINTEXT",
    OneOf(SECURITY_PROTOCOLS, ignore_case=True),
)
_JAVA_BACKOFF_MS = {"reconnect.backoff": 50, "retry.backoff": 100}
_JAVA_BACKOFF_MAX_MS = 1000
# The most requests in flight with which an idempotent producer keeps its order.
MAX_IDEMPOTENT_IN_FLIGHT = 5


def needs_proxy(props: Mapping[str, str]) -> bool:
    """Return whether a librdkafka client of these Java properties needs a `SaslProxy`: because it
    lacks the login, or because TLS stores are files, which it would read only once. Raises
    ConfigError.
    """
    given = _given(props)
    in_files = _security_protocol(given).endswith("SSL") and bool(store_files(given))
    return in_files or is_beyond_librdkafka(given)


def librdkafka_config(props: Mapping[str, str], kind: ClientKind) -> dict[str, Any]:
    """Return the librdkafka configuration for these Java properties. It contains secrets in plain
    text.

    If `needs_proxy`, it lacks security and brokers, which a `SaslProxy` provides. Raises
    ConfigError with the Java key.
    """
    given = _given(props)
    # librdkafka would take 9092 for a missing port, and without brokers wait without end.
    bootstrap_servers(given)
    table = KINDS[kind]
    config: dict[str, Any] = {}
    for name, value in given.items():
        mapped = table.get(name)
        if mapped is not None:
            config.update(_converted(mapped, given))
        elif name in WITHOUT_COUNTERPART and not is_our_own(name, value):
            _warn_without_counterpart(name)
    for prefix in ("reconnect.backoff", "retry.backoff"):
        _order_backoff(config, prefix)
    if kind == "producer":
        _complete_producer(config, given)
    elif kind == "consumer":
        _complete_consumer(config)
    protocol = _security_protocol(given)
    if needs_proxy(given):
        # As the proxy will read them: wrong ones are refused here.
        if protocol.endswith("SSL"):
            ssl_context(given)
        if protocol.startswith("SASL"):
            wire_sasl(given)
        config.pop("bootstrap.servers", None)
        return config
    config["security.protocol"] = protocol.lower()
    if protocol.endswith("SSL"):
        config.update(librdkafka_tls(given))
    if protocol.startswith("SASL"):
        config.update(librdkafka_sasl(given))
    return config


def wire_settings(props: Mapping[str, str]) -> WireSettings:
    """Return the settings of raw connections. Raises ConfigError with the key; reads key store
    files.
    """
    given = _given(props)
    parsed = _WIRE_DEF.parse(given)
    protocol = _security_protocol(given)
    sasl = protocol.startswith("SASL")
    return WireSettings(
        bootstrap=bootstrap_servers(given),
        client_id=given.get("client.id", ""),
        security_protocol=protocol,
        ssl_context=ssl_context(given) if protocol.endswith("SSL") else None,
        ssl_check_hostname=verifies_hostname(given),
        sasl_mechanism=sasl_mechanism(given) if sasl else None,
        sasl=wire_sasl(given) if sasl else {},
        request_timeout_ms=parsed.integer("request.timeout.ms"),
        socket_connection_setup_timeout_ms=parsed.integer("socket.connection.setup.timeout.ms"),
        send_buffer_bytes=parsed.integer("send.buffer.bytes"),
        receive_buffer_bytes=parsed.integer("receive.buffer.bytes"),
        reconnect_backoff_ms=parsed.integer("reconnect.backoff.ms"),
        reconnect_backoff_max_ms=parsed.integer("reconnect.backoff.max.ms"),
        retry_backoff_ms=parsed.integer("retry.backoff.ms"),
        retry_backoff_max_ms=parsed.integer("retry.backoff.max.ms"),
        metadata_max_age_ms=parsed.integer("metadata.max.age.ms"),
    )


def fetch_settings(props: Mapping[str, str]) -> FetchSettings:
    """Return the fetch settings of a consumer's properties. Raises ConfigError with the key."""
    parsed = _FETCH_DEF.parse(_given(props))
    resets: dict[str, AutoOffsetReset] = {"latest": "latest", "none": "none"}
    return FetchSettings(
        isolation_level=1 if parsed.string("isolation.level") == "read_committed" else 0,
        fetch_min_bytes=parsed.integer("fetch.min.bytes"),
        fetch_max_bytes=parsed.integer("fetch.max.bytes"),
        max_partition_fetch_bytes=parsed.integer("max.partition.fetch.bytes"),
        fetch_max_wait_ms=parsed.integer("fetch.max.wait.ms"),
        client_rack=parsed.string("client.rack"),
        auto_offset_reset=resets.get(parsed.string("auto.offset.reset"), "earliest"),
    )


def produce_settings(props: Mapping[str, str]) -> ProduceSettings:
    """Return the produce settings of a producer's properties. Raises ConfigError with the key."""
    given = _given(props)
    parsed = _PRODUCE_DEF.parse(given)
    acks = parsed.string("acks")
    if acks not in ("all", "-1"):
        warn_once(
            "acks",
            f"acks={acks} has no effect on copying: a source offset is stored only when all "
            "in-sync replicas have the records, so acks=all is used",
        )
    in_flight = parsed.integer("max.in.flight.requests.per.connection")
    if in_flight > MAX_IDEMPOTENT_IN_FLIGHT:
        warn_once(
            "max.in.flight.requests.per.connection",
            f"max.in.flight.requests.per.connection={in_flight}: idempotence keeps the order of"
            f" at most {MAX_IDEMPOTENT_IN_FLIGHT} requests, so {MAX_IDEMPOTENT_IN_FLIGHT} is used",
        )
    return ProduceSettings(
        compression=_compression(parsed),
        max_request_size=parsed.integer("max.request.size"),
        request_timeout_ms=parsed.integer("request.timeout.ms"),
        delivery_timeout_ms=parsed.integer("delivery.timeout.ms"),
        max_in_flight=min(in_flight, MAX_IDEMPOTENT_IN_FLIGHT),
        transaction_timeout_ms=parsed.integer("transaction.timeout.ms"),
    )


def _given(props: Mapping[str, str]) -> dict[str, str]:
    """Return the properties trimmed as in Java, so that no client gets trailing blanks."""
    return {key: value.strip() for key, value in props.items() if value is not None}


def _converted(mapped: Mapped, given: Mapping[str, str]) -> Mapping[str, Any]:
    key = mapped.key
    return mapped.convert(key.name, key.parse(given))


def _warn_without_counterpart(name: str) -> None:
    reason = WITHOUT_COUNTERPART[name]
    tail = f": {reason}" if reason else ""
    warn_once(name, f"The Kafka client property {name} has no effect in this program{tail}")


def _security_protocol(given: Mapping[str, str]) -> str:
    value = _SECURITY_PROTOCOL.parse(given)
    assert isinstance(value, str)
    return value.upper()


def _order_backoff(config: dict[str, Any], prefix: str) -> None:
    """Order the two backoff limits as in Java; librdkafka refuses a first wait above the longest.

    If only the first wait is set, the longest is at least as long. If the longest is set, it bounds
    the first.
    """
    first, longest = config.get(f"{prefix}.ms"), config.get(f"{prefix}.max.ms")
    if first is not None and longest is None:
        config[f"{prefix}.max.ms"] = max(first, _JAVA_BACKOFF_MAX_MS)
    elif longest is not None:
        config[f"{prefix}.ms"] = min(_JAVA_BACKOFF_MS[prefix] if first is None else first, longest)


def _complete_producer(config: dict[str, Any], given: Mapping[str, str]) -> None:
    """Apply Java's producer defaults and librdkafka's conditions between keys."""
    codec = config.get("compression.type")
    level_key = _LEVEL_KEYS.get(str(codec))
    if level_key is not None and level_key in given:
        level = _PRODUCE_DEF.parse(given).integer(level_key)
        config["compression.level"] = min(max(level, -1), 12)
    in_conflict = (
        config.get("acks", "all") not in ("all", "-1")
        or config.get("retries", 1) == 0
        or config.get("max.in.flight.requests.per.connection", 1) > MAX_IDEMPOTENT_IN_FLIGHT
    )
    if "enable.idempotence" not in config:
        config["enable.idempotence"] = not in_conflict
    elif config["enable.idempotence"] and in_conflict:
        raise ConfigError(
            "Invalid value true for configuration enable.idempotence: it needs acks=all, retries "
            f"of at least 1 and max.in.flight.requests.per.connection of at most "
            f"{MAX_IDEMPOTENT_IN_FLIGHT}",
            key="enable.idempotence",
            value="true",
        )
    linger, timeout = config.get("linger.ms", 5), config.get("delivery.timeout.ms", 0)
    if timeout and linger >= timeout:
        raise invalid_value(
            "delivery.timeout.ms", timeout, f"must be larger than linger.ms, which is {linger}"
        )
    if config.get("transaction.timeout.ms") is not None and "transactional.id" not in config:
        del config["transaction.timeout.ms"]


def _complete_consumer(config: dict[str, Any]) -> None:
    config.setdefault("isolation.level", "read_uncommitted")
    config.setdefault("check.crcs", True)
    if "max.poll.interval.ms" in config or "session.timeout.ms" in config:
        # librdkafka requires the poll interval to be the longer one; Java does not.
        session = config.get("session.timeout.ms", 45_000)
        config["max.poll.interval.ms"] = max(config.get("max.poll.interval.ms", 300_000), session)
    if config.get("group.protocol") == "consumer":
        # With the new protocol the broker decides these, and librdkafka refuses them.
        for name in (
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "partition.assignment.strategy",
        ):
            if config.pop(name, None) is not None:
                warn_once(f"{name} consumer", f"{name} has no effect with group.protocol=consumer")
    else:
        config.pop("group.remote.assignor", None)


def bootstrap_servers(props: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """Return the host and port of each bootstrap broker.

    Raises ConfigError, as Java's clients do, if there is none or an address has no port.
    """
    given = _given(props)
    if _SERVERS not in given:
        raise ConfigError(
            f'Missing required configuration "{_SERVERS}" which has no default value.',
            key=_SERVERS,
        )
    servers = COMMON[_SERVERS].key.parse(given)
    assert isinstance(servers, tuple)
    return tuple(_address(_SERVERS, server) for server in servers)


def _address(key: str, text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    port = int(found[3]) if found else 0
    if found is None or not 0 < port < 65536:
        raise invalid_value(key, text, "must be host:port, or [IPv6 address]:port")
    return found[1] or found[2], port


_LEVEL_KEYS = {
    "gzip": "compression.gzip.level",
    "lz4": "compression.lz4.level",
    "zstd": "compression.zstd.level",
}
_CODECS: dict[str, CompressionCodec] = {
    "none": "none",
    "gzip": "gzip",
    "snappy": "snappy",
    "lz4": "lz4",
    "zstd": "zstd",
}


def _compression(parsed: ParsedConfig) -> Compression | None:
    name = parsed.optional_string("compression.type")
    if name is None:
        return None
    level_key = _LEVEL_KEYS.get(name)
    level = parsed.optional_integer(level_key) if level_key else None
    # -1 is gzip's own default level.
    return Compression(_CODECS[name], None if level == -1 and name == "gzip" else level)


_INT, _LONG, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.STRING


def _defaults(settings: FetchSettings | ProduceSettings | WireSettings, name: str) -> int:
    value = getattr(settings, name.replace(".", "_"))
    assert isinstance(value, int)
    return value


def _number_keys(
    settings: FetchSettings | ProduceSettings | WireSettings,
    kind: ConfigType,
    minimum: int,
    *names: str,
) -> list[ConfigKey]:
    """Return keys with the default of the settings field of the same name."""
    return [ConfigKey(name, kind, _defaults(settings, name), Range(minimum)) for name in names]


_WIRE = WireSettings(bootstrap=())
_WIRE_DEF = ConfigDef(
    [
        *_number_keys(
            _WIRE,
            _LONG,
            0,
            "socket.connection.setup.timeout.ms",
            "reconnect.backoff.ms",
            "reconnect.backoff.max.ms",
            "retry.backoff.ms",
            "retry.backoff.max.ms",
            "metadata.max.age.ms",
        ),
        *_number_keys(_WIRE, _INT, 0, "request.timeout.ms"),
        *_number_keys(_WIRE, _INT, -1, "send.buffer.bytes", "receive.buffer.bytes"),
    ]
)
_FETCH_DEF = ConfigDef(
    [
        ConfigKey(
            "isolation.level",
            _STRING,
            "read_uncommitted",
            OneOf(("read_committed", "read_uncommitted")),
        ),
        *_number_keys(
            FetchSettings(),
            _INT,
            0,
            "fetch.min.bytes",
            "fetch.max.bytes",
            "max.partition.fetch.bytes",
            "fetch.max.wait.ms",
        ),
        ConfigKey("client.rack", _STRING, ""),
        ConfigKey("auto.offset.reset", _STRING, "earliest", OneOf(("latest", "earliest", "none"))),
    ]
)
_PRODUCE_DEF = ConfigDef(
    [
        ConfigKey("acks", _STRING, "all", OneOf(("all", "-1", "0", "1"))),
        ConfigKey("compression.type", _STRING, None, OrNull(OneOf(tuple(_CODECS)))),
        ConfigKey("compression.gzip.level", _INT, None, OrNull(Range(-1, 9))),
        ConfigKey("compression.lz4.level", _INT, None, OrNull(Range(1, 17))),
        ConfigKey("compression.zstd.level", _INT, None, OrNull(Range(-131072, 22))),
        *_number_keys(
            ProduceSettings(),
            _INT,
            0,
            "max.request.size",
            "request.timeout.ms",
            "delivery.timeout.ms",
            "transaction.timeout.ms",
        ),
        ConfigKey(
            "max.in.flight.requests.per.connection",
            _INT,
            ProduceSettings().max_in_flight,
            Range(1),
        ),
    ]
)
