"""Old keys of MirrorMaker 1's files, and what is answered where ZooKeeper was named."""

from __future__ import annotations

import pytest

from connect.config.properties import parse_properties
from connect.errors import ConfigError
from connectors.mirrormaker1.client_properties import Translate, consumer, producer

# As the Hortonworks guide and Kafka's wiki print them, with the brokers' addresses added.
OLD_CONSUMER = """
zk.connect=hdp-1:2181/kafka
zk.connectiontimeout.ms=1000000
consumer.timeout.ms=-1
groupid=dp-MirrorMaker-test-datap1
shallow.iterator.enable=true
mirror.topics.whitelist=app_log
socket.buffersize=1048576
fetch.size=2097152
auto.commit.enabled=false
autooffset.reset=smallest
"""
OLD_PRODUCER = """
zk.connect=hdp-test-1:2181
producer.type=async
compression.codec=0
serializer.class=kafka.serializer.DefaultEncoder
max.message.size=10000000
queue.time=1000
queue.enqueueTimeout.ms=-1
"""
SERVERS = {"bootstrap.servers": "b:9092"}


def test_the_old_consumer_file_is_translated() -> None:
    found = consumer("c.properties", {**parse_properties(OLD_CONSUMER), **SERVERS})
    assert found.properties == {
        "bootstrap.servers": "b:9092",
        "group.id": "dp-MirrorMaker-test-datap1",
        "client.id": "dp-MirrorMaker-test-datap1-0",
        "receive.buffer.bytes": "1048576",
        "max.partition.fetch.bytes": "2097152",
        "auto.offset.reset": "earliest",
    }


def test_the_old_producer_file_is_translated_and_loses_nothing() -> None:
    found = producer("p.properties", {**parse_properties(OLD_PRODUCER), **SERVERS})
    assert found.properties == {
        "bootstrap.servers": "b:9092",
        "compression.type": "none",
        "max.request.size": "10000000",
        "linger.ms": "1000",
        "acks": "all",
        "delivery.timeout.ms": "2147483647",
    }


@pytest.mark.parametrize(
    ("text", "translate"), [(OLD_CONSUMER, consumer), (OLD_PRODUCER, producer)]
)
def test_every_old_key_is_named_in_one_warning(text: str, translate: object) -> None:
    assert callable(translate)
    given = parse_properties(text)
    warnings = translate("f", {**given, **SERVERS}).warnings
    assert [sum(f"f: {key} " in warning for warning in warnings) for key in given] == [1] * len(
        given
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("metadata.broker.list", "bootstrap.servers"), ("broker.list", "bootstrap.servers")],
)
def test_an_old_list_of_brokers_is_enough(old: str, new: str) -> None:
    assert producer("p", {old: "b:9092"}).properties[new] == "b:9092"


@pytest.mark.parametrize(("codec", "name"), [("0", "none"), ("1", "gzip"), ("2", "snappy")])
def test_codecs_had_numbers(codec: str, name: str) -> None:
    found = producer("p", {"compression.codec": codec, **SERVERS})
    assert found.properties["compression.type"] == name


def test_a_new_key_wins_over_its_old_one() -> None:
    found = consumer("c", {"groupid": "old", "group.id": "new", **SERVERS})
    assert found.properties["group.id"] == "new"
    assert "c: groupid has no effect beside group.id" in found.warnings


@pytest.mark.parametrize("strategy", ["roundrobin", "RoundRobin"])
def test_the_old_names_of_assignors_are_known(strategy: str) -> None:
    given = {"group.id": "g", "partition.assignment.strategy": strategy, **SERVERS}
    assert consumer("c", given).properties["partition.assignment.strategy"] == (
        "org.apache.kafka.clients.consumer.RoundRobinAssignor"
    )


@pytest.mark.parametrize(
    ("old", "new"), [("PLAINTEXTSASL", "SASL_PLAINTEXT"), ("sslsasl", "SASL_SSL")]
)
@pytest.mark.parametrize("translate", [consumer, producer])
def test_the_protocols_of_hortonworks_are_known(old: str, new: str, translate: Translate) -> None:
    found = translate("f", {"group.id": "g", "security.protocol": old, **SERVERS})
    assert found.properties["security.protocol"] == new
    assert f"f: security.protocol={old} is an old name; reading it as {new}" in found.warnings


def test_without_a_property_new_groups_begin_at_the_end_as_in_java() -> None:
    found = consumer("c", {"group.id": "g", **SERVERS})
    assert found.properties["auto.offset.reset"] == "latest"


def test_sends_are_retried_without_an_end_whatever_the_file_says() -> None:
    found = producer("p", {"retries": "3", "delivery.timeout.ms": "1000", **SERVERS})
    assert found.properties["delivery.timeout.ms"] == "2147483647"
    assert "retries" not in found.properties
    assert len(found.warnings) == 2


@pytest.mark.parametrize("key", ["zk.connect", "zookeeper.connect"])
def test_zookeeper_alone_is_answered_with_the_line_to_write(key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        consumer("c.properties", {key: "z:2181", "group.id": "g"})
    assert str(raised.value) == (
        f"c.properties: {key} names ZooKeeper, which is not used any more. Write the address of "
        "brokers of the source cluster instead: bootstrap.servers=HOST:9092"
    )


def test_a_consumer_needs_a_group() -> None:
    with pytest.raises(ConfigError, match=r"c: group\.id is missing"):
        consumer("c", SERVERS)
