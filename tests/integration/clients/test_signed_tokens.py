"""OAUTHBEARER with brokers that check RS256 tokens: signature by the issuer's key set, issuer and
audience. Each kind of client gets its token for a secret and for an assertion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from kafka.protocol.metadata import MetadataRequest

from connect.clients.config.properties import wire_settings
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.factory import consumer
from connect.clients.librdkafka.record_sender import RecordSender
from connect.clients.wire.bootstrap_probe import why_unreachable
from connect.clients.wire.connection import open_connection
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, ConnectError
from connect.runtime.distributed.assignment import ConfigView
from deploy.brokers import JvmOptions, KafkaCluster, KafkaRuntime
from tests.support.records.topics import create_topic, unique
from tests.support.security.token_issuer import CLIENT, TokenIssuer, running_issuer
from tests.support.waiting import wait_until
from tests.support.workers.members import TestMember

AMPLE_S = 60.0
KINDS = ("client_credentials", "assertion")
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{CLIENT}",
}


@dataclass
class Checked:
    """A broker that checks tokens, and their issuer. Only the tokens' subject may do anything."""

    cluster: KafkaCluster
    issuer: TokenIssuer

    def properties(self, kind: str) -> dict[str, str]:
        login = getattr(self.issuer, kind)()
        return {
            "bootstrap.servers": self.cluster.bootstrap("SIGNED"),
            "client.id": "signed",
            "security.protocol": "SASL_PLAINTEXT",
            **login,
        }

    def refused(self, properties: dict[str, str]) -> ConnectError:
        error = why_unreachable(properties, Deadline(AMPLE_S))
        assert error is not None
        return error


@pytest.fixture(scope="module")
def checked(
    kafka: KafkaRuntime, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Checked]:
    with (
        running_issuer(tmp_path_factory.mktemp("issuer")) as issuer,
        KafkaCluster(
            name="signed",
            kafka=kafka,
            logs=session_logs,
            listeners={"SIGNED": "SASL_PLAINTEXT"},
            properties={**issuer.broker_properties("signed"), **RIGHTS},
            jvm=JvmOptions(flags=(issuer.jvm_flag,)),
        ) as cluster,
    ):
        yield Checked(cluster, issuer)


@pytest.fixture(params=KINDS)
def properties(checked: Checked, request: pytest.FixtureRequest) -> dict[str, str]:
    """A client's, for each way to get a token."""
    return checked.properties(request.param)


def test_raw_connections(properties: dict[str, str]) -> None:
    settings = wire_settings(properties)
    connection = open_connection(*settings.bootstrap[0], settings, Deadline(AMPLE_S))
    try:
        assert len(connection.call(MetadataRequest(topics=[]), Deadline(AMPLE_S)).brokers) == 1
    finally:
        connection.close()


def test_clients_of_librdkafka(checked: Checked, properties: dict[str, str]) -> None:
    topic = create_topic(checked.cluster.bootstrap_servers, "signed")
    admin = Admin(properties)
    assert topic in admin.list_topics(AMPLE_S)
    admin.close()

    sender = RecordSender(properties)
    sent = [sender.send_future(topic, None, b"%d" % n) for n in range(10)]
    assert [future.result(AMPLE_S).offset for future in sent] == list(range(10))
    sender.close(Deadline(AMPLE_S))

    group = {"group.id": unique("group"), "auto.offset.reset": "earliest"}
    member = consumer({**properties, **group})
    member.subscribe([topic])
    values: list[bytes | None] = []
    deadline = Deadline(AMPLE_S)
    while len(values) < 10:
        deadline.check("reading")
        values += [message.value() for message in member.consume(10, timeout=0.5)]
    assert values == [b"%d" % n for n in range(10)]
    member.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
    member.close()


def test_a_group_member(checked: Checked, properties: dict[str, str]) -> None:
    member = TestMember(
        checked.cluster.bootstrap("SIGNED"),
        unique("connect-group"),
        "one",
        lambda: ConfigView(1, {"c": 2}),
        properties=properties,
    ).start()
    try:
        wait_until(lambda: member.failure or len(member.running) == 3, AMPLE_S, "an assignment")
        assert member.failure is None
    finally:
        member.stop()


def test_the_issuer_was_asked_in_both_ways(checked: Checked) -> None:
    before = len(checked.issuer.grants)
    for kind in KINDS:
        assert why_unreachable(checked.properties(kind), Deadline(AMPLE_S)) is None
    asked = checked.issuer.grants[before:]
    assert any(grant == "client_credentials" for grant in asked)
    assert any(grant.endswith(":jwt-bearer") for grant in asked)


@pytest.mark.parametrize("field", ["audience", "issuer"])
def test_a_token_for_others_or_of_others_is_refused(
    checked: Checked, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked.issuer, field, "https://other.test")
    assert isinstance(checked.refused(checked.properties("assertion")), AuthenticationFailed)


def test_a_token_that_an_unknown_key_signed_is_refused(checked: Checked) -> None:
    with checked.issuer.unknown_key():
        assert isinstance(checked.refused(checked.properties("assertion")), AuthenticationFailed)


def test_a_wrong_secret_gets_no_token(checked: Checked) -> None:
    properties = checked.properties("client_credentials")
    jaas = properties["sasl.jaas.config"].replace("secret-of", "guess-of")
    error = checked.refused({**properties, "sasl.jaas.config": jaas})
    assert "refused the client credentials" in str(error)
    assert "guess-of" not in str(error)
