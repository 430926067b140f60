"""Java's client properties become librdkafka's: every result is given to a real client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from connect.clients import warn_once
from connect.clients.config.librdkafka_keys import KINDS, WITHOUT_COUNTERPART, ClientKind
from connect.clients.config.properties import (
    fetch_settings,
    librdkafka_config,
    needs_proxy,
    produce_settings,
    wire_settings,
)
from connect.clients.config.settings import Compression, FetchSettings, ProduceSettings
from connect.config.types import ConfigType
from connect.errors import ConfigError

STORES = Path(__file__).parents[4] / "golden" / "key_stores"
BOOTSTRAP = {"bootstrap.servers": "localhost:1"}
JAAS = "org.apache.kafka.common.security."
PLAIN = JAAS + 'plain.PlainLoginModule required username="u" password="hunter2";'
SCRAM = JAAS + 'scram.ScramLoginModule required username="u" password="hunter2";'
OAUTH = JAAS + "oauthbearer.OAuthBearerLoginModule required "


@pytest.fixture(autouse=True)
def _fresh_notices() -> None:
    warn_once._seen.clear()


def accepted(props: dict[str, str], kind: ClientKind) -> dict[str, Any]:
    """What the properties become, after a client took it. Nothing is connected to."""
    config = librdkafka_config(BOOTSTRAP | props, kind)
    quiet = {**config, "log_level": 0}
    if kind == "producer":
        confluent_kafka.Producer(quiet)
    elif kind == "consumer":
        confluent_kafka.Consumer({"group.id": "unused", **quiet}).close()
    else:
        AdminClient(quiet)
    return config


def samples(kind: ClientKind) -> Iterator[tuple[str, str]]:
    """Every mapped key with values at both ends of what Java takes."""
    texts = {
        "acks": ("all", "1"),
        "auto.offset.reset": ("earliest", "latest", "none"),
        "bootstrap.servers": ("a:1, b:2",),
        "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
        "group.protocol": ("classic", "CONSUMER"),
        "isolation.level": ("read_committed", "read_uncommitted"),
        "metadata.recovery.strategy": ("REBOOTSTRAP", "none"),
        "partition.assignment.strategy": (
            "org.apache.kafka.clients.consumer.RangeAssignor,"
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        ),
    }
    bounds = {ConfigType.INT: 2**31 - 1, ConfigType.LONG: 2**63 - 1}
    for name, mapped in KINDS[kind].items():
        if name in texts:
            yield from ((name, text) for text in texts[name])
        elif mapped.key.type is ConfigType.BOOLEAN:
            yield from ((name, "true"), (name, "FALSE"))
        elif mapped.key.type in bounds:
            least = 1 if "at least 1" in _refusal(mapped.key.name, kind) else 0
            yield from ((name, str(least)), (name, str(bounds[mapped.key.type])))
        else:
            yield name, "some-text"


def _refusal(name: str, kind: ClientKind) -> str:
    try:
        librdkafka_config(BOOTSTRAP | {name: "0"}, kind)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", get_args(ClientKind))
def test_every_mapped_key_is_taken_by_a_real_client(kind: ClientKind) -> None:
    # A linger must be shorter than the delivery timeout, in Java too.
    partners = {
        "linger.ms": {"delivery.timeout.ms": "2147483647"},
        "delivery.timeout.ms": {"linger.ms": "0"},
        "heartbeat.interval.ms": {"session.timeout.ms": "45000"},
    }
    for name, value in samples(kind):
        try:
            accepted({**partners.get(name, {}), name: value}, kind)
        except (confluent_kafka.KafkaException, ConfigError) as error:
            raise AssertionError(f"{name}={value} as {kind}: {error}") from error


def test_a_producer_gets_javas_values() -> None:
    config = accepted(
        {
            "acks": "-1",
            "batch.size": "0",
            "buffer.memory": "33554433",
            "client.id": " mirror ",
            "compression.type": "gzip",
            "compression.gzip.level": "7",
            "delivery.timeout.ms": "120000",
            "linger.ms": "6",
            "max.request.size": "2147483647",
            "request.timeout.ms": "30000",
            "send.buffer.bytes": "-1",
            "max.in.flight.requests.per.connection": "3",
        },
        "producer",
    )
    assert config == {
        "acks": "-1",
        "batch.size": 1,
        "bootstrap.servers": "localhost:1",
        "client.id": "mirror",
        "compression.level": 7,
        "compression.type": "gzip",
        "delivery.timeout.ms": 120000,
        "enable.idempotence": True,
        "linger.ms": 6,
        "max.in.flight.requests.per.connection": 3,
        "message.max.bytes": 1_000_000_000,
        "queue.buffering.max.kbytes": 32769,
        "request.timeout.ms": 30000,
        "security.protocol": "plaintext",
        "socket.send.buffer.bytes": 0,
        "socket.timeout.ms": 30000,
    }


@pytest.mark.parametrize(
    "props", [{"acks": "1"}, {"retries": "0"}, {"max.in.flight.requests.per.connection": "6"}]
)
def test_idempotence_is_on_unless_something_excludes_it(props: dict[str, str]) -> None:
    assert accepted({}, "producer")["enable.idempotence"] is True
    assert accepted(props, "producer")["enable.idempotence"] is False
    with pytest.raises(ConfigError, match=r"configuration enable\.idempotence: it needs acks=all"):
        librdkafka_config(BOOTSTRAP | props | {"enable.idempotence": "true"}, "producer")


def test_a_consumer_reads_uncommitted_unless_told_otherwise() -> None:
    assert accepted({}, "consumer")["isolation.level"] == "read_uncommitted"
    config = accepted({"isolation.level": "read_committed"}, "consumer")
    assert config["isolation.level"] == "read_committed"


def test_fetch_sizes_satisfy_librdkafkas_own_conditions() -> None:
    small = accepted({"fetch.max.bytes": "0"}, "consumer")
    assert small["fetch.max.bytes"] == small["message.max.bytes"] == 1000
    large = accepted({"fetch.max.bytes": "2147483647"}, "consumer")
    assert large["receive.message.max.bytes"] == large["fetch.max.bytes"] + 512


@pytest.mark.parametrize(
    ("props", "first", "longest"),
    [
        ({"reconnect.backoff.ms": "5000"}, 5000, 5000),
        ({"reconnect.backoff.ms": "20"}, 20, 1000),
        ({"reconnect.backoff.max.ms": "20"}, 20, 20),
        ({"reconnect.backoff.ms": "9", "reconnect.backoff.max.ms": "7"}, 7, 7),
    ],
)
def test_the_first_wait_is_never_longer_than_the_longest(
    props: dict[str, str], first: int, longest: int
) -> None:
    config = accepted(props, "admin")
    assert config["reconnect.backoff.ms"] == first
    assert config["reconnect.backoff.max.ms"] == longest


def test_a_key_of_another_kind_of_client_is_passed_over() -> None:
    config = accepted(
        {"linger.ms": "5", "fetch.min.bytes": "9", "offset.storage.topic": "t"}, "admin"
    )
    assert set(config) == {"bootstrap.servers", "security.protocol"}


def test_a_key_without_counterpart_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    props = BOOTSTRAP | {"interceptor.classes": "org.example.Secret"}
    for _ in range(3):
        librdkafka_config(props, "producer")
    assert len(caplog.records) == 1
    assert "interceptor.classes has no effect in this program" in caplog.text
    assert "org.example.Secret" not in caplog.text


def test_what_is_done_anyway_is_not_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    librdkafka_config(BOOTSTRAP | {"key.serializer": serializer}, "producer")
    assert not caplog.records


@pytest.mark.parametrize("kind", get_args(ClientKind))
def test_no_key_is_both_mapped_and_without_counterpart(kind: ClientKind) -> None:
    assert not (set(KINDS[kind]) & set(WITHOUT_COUNTERPART)) - {"retries"}


@pytest.mark.parametrize(
    ("kind", "props", "message"),
    [
        (
            "producer",
            {"linger.ms": "x"},
            "Invalid value x for configuration linger.ms: Not a number",
        ),
        (
            "producer",
            {"acks": "2"},
            "Invalid value 2 for configuration acks: String must be one of",
        ),
        ("producer", {"compression.type": "brotli"}, "configuration compression.type"),
        ("producer", {"linger.ms": "9", "delivery.timeout.ms": "9"}, "larger than linger.ms"),
        ("consumer", {"fetch.min.bytes": "-1"}, "Value must be at least 0"),
        ("consumer", {"auto.offset.reset": "by_duration:P1D"}, "configuration auto.offset.reset"),
        (
            "admin",
            {"security.protocol": "TLS"},
            "Invalid value TLS for configuration security.prot",
        ),
        (
            "admin",
            {"bootstrap.servers": "a:1,,b:1"},
            "'bootstrap.servers' values must not be empty",
        ),
    ],
)
def test_wrong_values_are_refused_in_javas_words(
    kind: ClientKind, props: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        librdkafka_config(BOOTSTRAP | props, kind)
    assert message in str(caught.value)
    assert caught.value.key in props


SECURE = [
    {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
    {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": SCRAM,
        "ssl.truststore.location": str(STORES / "trust.jks"),
        "ssl.truststore.password": "changeit",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    },
    {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(STORES / "client.jks"),
        "ssl.keystore.password": "changeit",
        "ssl.key.password": "key-password",
    },
    {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": OAUTH
        + 'clientId="c" clientSecret="hunter2" scope="s" extension_x="y";',
        "sasl.oauthbearer.token.endpoint.url": "http://localhost:1/token",
    },
    {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": OAUTH + 'unsecuredLoginStringClaim_sub="u";',
    },
]


@pytest.mark.parametrize("kind", get_args(ClientKind))
@pytest.mark.parametrize("props", SECURE)
def test_security_is_taken_by_a_real_client(props: dict[str, str], kind: ClientKind) -> None:
    accepted(props, kind)


TRUSTED = {"ssl.truststore.location": str(STORES / "trust.jks")}


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        ({"security.protocol": "SSL", **TRUSTED}, True),
        ({"security.protocol": "SSL", "ssl.truststore.location": ""}, False),
        ({"security.protocol": "SSL"}, False),
        (TRUSTED, False),
    ],
)
def test_stores_in_files_are_read_by_a_proxy(props: dict[str, str], expected: bool) -> None:
    """It can read them again, which librdkafka does not."""
    assert needs_proxy(props) is expected
    config = librdkafka_config(BOOTSTRAP | props, "consumer")
    assert ("bootstrap.servers" in config) is not expected


def test_a_store_that_the_proxy_could_not_read_is_refused_before() -> None:
    props = {"security.protocol": "SSL", "ssl.truststore.location": str(STORES / "nothing.jks")}
    with pytest.raises(ConfigError, match="nothing"):
        librdkafka_config(BOOTSTRAP | props, "admin")


@pytest.mark.parametrize("props", SECURE)
def test_raw_connections_get_the_same_security_and_never_print_it(props: dict[str, str]) -> None:
    settings = wire_settings(BOOTSTRAP | props)
    protocol = props["security.protocol"].upper()
    assert settings.security_protocol == protocol
    assert (settings.ssl_context is not None) == protocol.endswith("SSL")
    assert settings.sasl_mechanism == props.get("sasl.mechanism")
    assert "hunter2" not in repr(settings)


def test_raw_connections_get_javas_numbers() -> None:
    settings = wire_settings(
        {
            "bootstrap.servers": "a:9092, [::1]:9093 ,SSL://b.example:9094",
            "client.id": "c",
            "request.timeout.ms": "1",
            "reconnect.backoff.max.ms": "2",
            "receive.buffer.bytes": "-1",
        }
    )
    assert settings.bootstrap == (("a", 9092), ("::1", 9093), ("b.example", 9094))
    assert settings.client_id == "c"
    assert settings.request_timeout_ms == 1
    assert settings.reconnect_backoff_max_ms == 2
    assert settings.receive_buffer_bytes == -1
    assert settings.metadata_max_age_ms == 300_000
    assert settings.ssl_context is None


@pytest.mark.parametrize("server", ["a", "a:", "a:0", "a:65536", ":1", "a:1:2", "http://a"])
def test_a_wrong_address_is_refused(server: str) -> None:
    with pytest.raises(ConfigError, match=r"configuration bootstrap\.servers: must be host:port"):
        wire_settings({"bootstrap.servers": server})


def test_an_address_is_required() -> None:
    with pytest.raises(ConfigError, match=r'Missing required configuration "bootstrap\.servers"'):
        wire_settings({})


def test_fetching_follows_the_consumers_properties() -> None:
    assert fetch_settings({}) == FetchSettings()
    assert FetchSettings().max_partition_fetch_bytes == 4 * 1024 * 1024
    assert fetch_settings(
        {
            "isolation.level": "read_committed",
            "fetch.min.bytes": "2",
            "fetch.max.bytes": "3",
            "max.partition.fetch.bytes": "1048576",
            "fetch.max.wait.ms": "5",
            "client.rack": "r",
            "auto.offset.reset": "none",
        }
    ) == FetchSettings(1, 2, 3, 1_048_576, 5, "r", "none")


def test_producing_follows_the_producers_properties(caplog: pytest.LogCaptureFixture) -> None:
    assert produce_settings({}) == ProduceSettings()
    assert ProduceSettings().compression is None
    settings = produce_settings(
        {
            "compression.type": "zstd",
            "compression.zstd.level": "19",
            "compression.gzip.level": "9",
            "max.request.size": "5",
            "delivery.timeout.ms": "6",
            "max.in.flight.requests.per.connection": "50",
            "acks": "1",
        }
    )
    assert settings == ProduceSettings(Compression("zstd", 19), 5, 30_000, 6, 5)
    assert "acks=1 has no effect" in caplog.text
    assert "max.in.flight.requests.per.connection=50" in caplog.text


@pytest.mark.parametrize(
    ("props", "compression"),
    [
        ({"compression.type": "none"}, Compression("none")),
        ({"compression.type": "gzip", "compression.gzip.level": "-1"}, Compression("gzip")),
        ({"compression.type": "zstd", "compression.zstd.level": "-1"}, Compression("zstd", -1)),
        ({"compression.type": "lz4"}, Compression("lz4")),
        ({"compression.lz4.level": "3"}, None),
    ],
)
def test_compression_is_only_changed_when_asked(
    props: dict[str, str], compression: Compression | None
) -> None:
    assert produce_settings(props).compression == compression


@pytest.mark.parametrize("kind", get_args(ClientKind))
@pytest.mark.parametrize("servers", ["localhost", "localhost:", "a:1,b", "localhost:0", ":9092"])
def test_a_server_without_a_port_is_refused(servers: str, kind: ClientKind) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers: must be host:port"):
        librdkafka_config({"bootstrap.servers": servers}, kind)


@pytest.mark.parametrize("kind", get_args(ClientKind))
def test_a_client_without_servers_is_refused(kind: ClientKind) -> None:
    with pytest.raises(ConfigError, match=r'configuration "bootstrap\.servers"'):
        librdkafka_config({"client.id": "x"}, kind)
