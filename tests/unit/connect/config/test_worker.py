"""The worker's keys, and which of them its clients and its tasks' producers get."""

from __future__ import annotations

import pytest

from connect.config.worker import WorkerConfig
from connect.errors import ConfigError
from connect.runtime.plugins.connector_clients import ConnectorClients
from connect.runtime.plugins.override_policy import AllConnectorClientConfigOverridePolicy

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
PROPS = {
    "bootstrap.servers": "b1:9092,b2:9092",
    "group.id": "A-mm2",
    "client.id": "A->B",
    "offset.storage.topic": "mm2-offsets.A.internal",
    "key.converter": BYTES,
    "value.converter": BYTES,
    "header.converter": BYTES,
}


def test_defaults_are_kafka_connects() -> None:
    config = WorkerConfig.from_properties(PROPS)
    assert config.offset_storage_partitions == 25
    assert config.offset_storage_replication_factor == 3
    assert config.offset_flush_interval_s == 60.0
    assert config.offset_flush_timeout_s == 5.0
    assert config.task_shutdown_graceful_timeout_s == 5.0


@pytest.mark.parametrize(
    "key", ["bootstrap.servers", "offset.storage.topic", "key.converter", "value.converter"]
)
def test_required_keys(key: str) -> None:
    props = {name: value for name, value in PROPS.items() if name != key}
    with pytest.raises(ConfigError, match=key):
        WorkerConfig.from_properties(props)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("offset.storage.partitions", "-2"),
        ("offset.storage.topic", ""),
        ("offset.flush.interval.ms", "soon"),
    ],
)
def test_wrong_values_are_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        WorkerConfig.from_properties({**PROPS, key: value})


def test_extra_topic_configs_of_the_offset_topic() -> None:
    config = WorkerConfig.from_properties(
        {
            **PROPS,
            "offset.storage.segment.bytes": "1000",
            "offset.storage.cleanup.policy": "delete",
            "offset.storage.partitions": "5",
        }
    )
    assert config.offset_storage_topic_configs == {"segment.bytes": "1000"}


def test_the_workers_own_clients_get_addresses_and_security_only() -> None:
    config = WorkerConfig.from_properties(
        {
            **PROPS,
            "security.protocol": "SSL",
            "request.timeout.ms": "1000",
            "producer.linger.ms": "7",
            "topics": "x",
        }
    )
    assert config.own_client_properties("offsets") == {
        "bootstrap.servers": "b1:9092,b2:9092",
        "security.protocol": "SSL",
        "request.timeout.ms": "1000",
        "client.id": "A-mm2-A->B-offsets",
    }


def test_client_id_without_one_of_the_worker() -> None:
    config = WorkerConfig.from_properties({**PROPS, "client.id": ""})
    assert config.own_client_properties("offsets")["client.id"] == "A-mm2-offsets"


def test_task_producers_defaults_then_the_workers_then_the_connectors() -> None:
    config = WorkerConfig.from_properties(
        {**PROPS, "producer.linger.ms": "7", "producer.acks": "1", "linger.ms": "99"}
    )
    clients = ConnectorClients(config, AllConnectorClientConfigOverridePolicy())
    producer = clients.of("c", "source", {"producer.override.acks": "0", "acks": "-1"}).producer(
        "connector-producer-c-0"
    )
    assert producer == {
        "bootstrap.servers": "b1:9092,b2:9092",
        "client.id": "connector-producer-c-0",
        "acks": "0",
        "linger.ms": "7",
        "delivery.timeout.ms": "2147483647",
    }


def test_properties_may_hold_secrets_so_they_do_not_print() -> None:
    config = WorkerConfig.from_properties({**PROPS, "sasl.jaas.config": "hunter2"})
    assert "hunter2" not in repr(config)
