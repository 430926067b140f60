"""librdkafka clients behind a SaslProxy, here with SCRAM, which needs nothing but brokers.

With the mechanisms that need the proxy it is tested where these are.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.protocol.metadata import MetadataRequest

from connect.clients.config.properties import wire_settings
from connect.clients.librdkafka import proxy_link
from connect.clients.librdkafka.sasl_proxy import SaslProxy
from connect.clients.wire.connection import WireConnection
from connect.clients.wire.sasl import exchange
from connect.clock import Deadline
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import create_topic, unique
from tests.support.security.certificates import Authority
from tests.support.security.secure_listeners import LOGIN, SECRET, sasl_properties, tls_properties
from tests.support.waiting import wait_until

AMPLE_S = 30.0
LISTENERS = {"SASL": "SASL_PLAINTEXT", "SHORT": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}
BROKERS = 2


@dataclass
class Brokers:
    cluster: KafkaCluster
    authority: Authority

    def properties(self, listener: str, password: str = SECRET) -> dict[str, str]:
        return {
            "bootstrap.servers": self.cluster.bootstrap(listener).split(",")[0],
            "client.id": "proxied",
            "security.protocol": LISTENERS[listener],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.pem,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": (
                f'{LOGIN}.scram.ScramLoginModule required username="ali" password="{password}";'
            ),
        }

    @contextmanager
    def proxy(self, listener: str, password: str = SECRET) -> Iterator[dict[str, Any]]:
        """A librdkafka configuration that leads to a proxy."""
        settings = wire_settings(self.properties(listener, password))
        proxy = SaslProxy(settings, lambda broker, error: None)
        try:
            yield proxy.librdkafka_config()
        finally:
            proxy.close()


@pytest.fixture(scope="module")
def brokers(kafka: KafkaRuntime, session_logs: Path) -> Iterator[Brokers]:
    authority = Authority()
    properties = tls_properties("secure", authority, "127.0.0.1")
    for listener in LISTENERS:
        properties |= sasl_properties(listener.lower())
    with KafkaCluster(
        nodes=BROKERS,
        name="proxied",
        kafka=kafka,
        logs=session_logs,
        listeners=LISTENERS,
        properties=properties,
        format_arguments=["--add-scram", f"SCRAM-SHA-256=[name=ali,password={SECRET}]"],
    ) as cluster:
        yield Brokers(cluster, authority)


def consumer(config: dict[str, Any]) -> Consumer:
    return Consumer(
        {
            **config,
            "group.id": unique("group"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def read(member: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = Deadline(AMPLE_S)
    while len(values) < count:
        deadline.check("reading")
        values += [message.value() for message in member.consume(count, timeout=0.5)]
    return values


@pytest.mark.parametrize("listener", ["SASL", "SECURE"])
def test_every_broker_is_reached_through_the_proxy(brokers: Brokers, listener: str) -> None:
    topic = create_topic(brokers.cluster.bootstrap_servers, partitions=BROKERS)
    with brokers.proxy(listener) as config:
        found = AdminClient(config).list_topics(topic, timeout=AMPLE_S)
        own = {(node.host, node.port) for node in found.brokers.values()}
        assert len(own) == BROKERS
        real = {node.split(":")[1] for node in brokers.cluster.bootstrap(listener).split(",")}
        assert not real & {str(port) for _, port in own}
        assert {part.leader for part in found.topics[topic].partitions.values()} == {1, 2}

        producer = Producer(config)
        for n in range(100):
            producer.produce(topic, b"%d" % n, partition=n % BROKERS)
        assert producer.flush(AMPLE_S) == 0
        member = consumer(config)
        member.subscribe([topic])
        assert sorted(read(member, 100)) == sorted(b"%d" % n for n in range(100))  # type: ignore[type-var]
        member.commit(offsets=[TopicPartition(topic, 0, 50)], asynchronous=False)
        assert member.committed([TopicPartition(topic, 0)], timeout=AMPLE_S)[0].offset == 50
        member.close()


@pytest.mark.parametrize("listener", ["SASL", "SECURE"])
def test_large_records_pass_whole(brokers: Brokers, listener: str) -> None:
    topic = create_topic(
        brokers.cluster.bootstrap_servers, configs={"max.message.bytes": "10000000"}
    )
    values = [os.urandom(1_000_000 * n) for n in range(1, 8)]
    with brokers.proxy(listener) as config:
        producer = Producer({**config, "message.max.bytes": 9_000_000})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(AMPLE_S) == 0
        member = consumer(config)
        member.assign([TopicPartition(topic, 0, 0)])
        assert read(member, len(values)) == values
        member.close()


def test_records_without_acknowledgement(brokers: Brokers) -> None:
    """acks=0 has no response, and the responses after it still find their requests."""
    topic = create_topic(brokers.cluster.bootstrap_servers)
    with brokers.proxy("SASL") as config:
        producer = Producer({**config, "acks": 0})
        for n in range(50):
            producer.produce(topic, b"%d" % n)
            assert producer.list_topics(topic, timeout=AMPLE_S).topics[topic].error is None
        assert producer.flush(AMPLE_S) == 0
        member = consumer(config)
        member.assign([TopicPartition(topic, 0, 0)])
        assert read(member, 50) == [b"%d" % n for n in range(50)]
        member.close()


def test_sessions_are_renewed_without_a_loss(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-368: brokers end a session of 1.5 s unless it is authenticated again."""
    exchanges: list[WireConnection] = []

    def counted(connection: WireConnection, *arguments: Any) -> int:
        exchanges.append(connection)
        return exchange(connection, *arguments)

    monkeypatch.setattr(proxy_link, "exchange", counted)
    topic = create_topic(brokers.cluster.bootstrap_servers)
    with brokers.proxy("SHORT") as config:
        producer, member = Producer({**config, "enable.idempotence": True}), consumer(config)
        assignments: list[object] = []
        member.subscribe([topic], on_assign=lambda _, parts: assignments.append(parts))
        sent: list[Future[int | None]] = []
        values: list[bytes | None] = []

        def renewed() -> bool:
            future: Future[int | None] = Future()
            sent.append(future)
            producer.produce(
                topic,
                b"%d" % (len(sent) - 1),
                on_delivery=lambda error, message: future.set_result(message.offset()),
            )
            producer.poll(0)
            values.extend(message.value() for message in member.consume(100, timeout=0.05))
            # Of connections that live on: a new one would be authenticated, too.
            return max(map(exchanges.count, exchanges), default=0) > 3

        wait_until(renewed, AMPLE_S, "three renewals of one connection")
        assert producer.flush(AMPLE_S) == 0
        assert [future.result(0) for future in sent] == list(range(len(sent)))
        values += read(member, len(sent) - len(values))
        member.close()
    assert values == [b"%d" % n for n in range(len(sent))]
    assert len(assignments) == 1


def test_a_refusal_is_the_clients_own(brokers: Brokers) -> None:
    errors: list[str] = []
    with brokers.proxy("SASL", "close-sesame") as config:
        producer = Producer({**config, "error_cb": lambda error: errors.append(str(error))})

        def told() -> bool:
            producer.poll(0.1)
            return any("SASL SCRAM-SHA-256 at 127.0.0.1" in error for error in errors)

        wait_until(told, AMPLE_S, "the broker's refusal")
    assert "_AUTHENTICATION" in errors[0]
    assert "close-sesame" not in str(errors)


def test_no_other_program_is_served(brokers: Brokers) -> None:
    """Whoever connects without the password learns no topic and reaches no broker."""
    with brokers.proxy("SASL") as config:
        stranger = AdminClient({**config, "sasl.password": "guessed", "log_level": 0})
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=2)
        host, port = config["bootstrap.servers"].split(":")
        with socket.create_connection((host, int(port)), timeout=AMPLE_S) as sock:
            request = MetadataRequest(topics=None, version=1)
            request.with_header(correlation_id=1, client_id="stranger")
            sock.sendall(request.encode(header=True, framed=True))
            assert sock.recv(1) == b""
        assert AdminClient(config).list_topics(timeout=AMPLE_S).brokers


def test_a_broker_that_restarts_is_found_again(brokers: Brokers) -> None:
    topic = create_topic(brokers.cluster.bootstrap_servers, replication=BROKERS)
    with brokers.proxy("SASL") as config:
        producer = Producer({**config, "log_level": 0})
        offsets: list[int | None] = []

        def send() -> None:
            producer.produce(topic, b"", on_delivery=lambda _, made: offsets.append(made.offset()))

        send()
        assert producer.flush(AMPLE_S) == 0
        node = brokers.cluster.node(2)
        node.stop(AMPLE_S)
        brokers.cluster.restart()
        send()
        assert producer.flush(AMPLE_S) == 0
        assert offsets == [0, 1]
