"""Brokers whose certificate or TLS version must not be accepted: each kind of client refuses them,
and says why."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.clients.config.properties import wire_settings
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.record_sender import RecordSender
from connect.clients.wire.connection import open_connection
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import AuthenticationFailed
from connect.runtime.distributed.assignment import ConfigView
from connect.runtime.sink.consumer import SinkConsumer
from deploy.brokers import JvmOptions, KafkaCluster, KafkaRuntime
from deploy.brokers.ports import LOOPBACK
from tests.support.records.topics import create_topic, unique
from tests.support.security.certificates import Authority
from tests.support.security.secure_listeners import tls_properties
from tests.support.workers.members import TestMember

AMPLE_S = 60.0
LISTENERS = dict.fromkeys(("GOOD", "ELSEWHERE", "EXPIRED", "STRANGER", "OLD"), "SSL")
NOT_ACCEPTED = "the broker's certificate is not accepted: "
CAUSES = {
    "ELSEWHERE": NOT_ACCEPTED + "IP address mismatch, certificate is not valid for '127.0.0.1'",
    "EXPIRED": NOT_ACCEPTED + "certificate has expired",
    "STRANGER": NOT_ACCEPTED + "unable to get local issuer certificate",
    "OLD": "the broker speaks none of the TLS versions in ssl.enabled.protocols",
}


@dataclass
class Brokers:
    """A broker with a listener of each kind, and the authority that clients trust."""

    cluster: KafkaCluster
    authority: Authority

    def properties(self, listener: str) -> dict[str, str]:
        """Java client properties."""
        return {
            "bootstrap.servers": self.cluster.bootstrap(listener),
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.pem,
        }


@pytest.fixture(scope="module")
def brokers(
    kafka: KafkaRuntime, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    authority = Authority()
    properties = {
        **tls_properties("good", authority, LOOPBACK),
        **tls_properties("elsewhere", authority, "elsewhere.example"),
        **tls_properties("expired", authority, LOOPBACK, expired=True),
        **tls_properties("stranger", Authority("a stranger"), LOOPBACK),
        **tls_properties("old", authority, LOOPBACK),
        "listener.name.old.ssl.enabled.protocols": "TLSv1.1",
    }
    # Java itself refuses TLS 1.1 by default.
    security = tmp_path_factory.mktemp("java") / "java.security"
    security.write_text("jdk.tls.disabledAlgorithms=\n")
    with KafkaCluster(
        name="refused-certificates",
        kafka=kafka,
        logs=session_logs,
        listeners=LISTENERS,
        properties=properties,
        jvm=JvmOptions(flags=(f"-Djava.security.properties={security}",)),
    ) as cluster:
        yield Brokers(cluster, authority)


def raw(props: Mapping[str, str], topic: str) -> None:
    settings = wire_settings(props)
    open_connection(*settings.bootstrap[0], settings, Deadline(AMPLE_S)).close()


def admin(props: Mapping[str, str], topic: str) -> None:
    with closing(Admin(props, needs_login=True)) as client:
        assert topic in client.list_topics(AMPLE_S)


def producer(props: Mapping[str, str], topic: str) -> None:
    sender = RecordSender(props, needs_login=True)
    try:
        sender.send_future(topic, b"k", b"v").result(AMPLE_S)
    finally:
        sender.close(Deadline(1.0))


def sink_consumer(props: Mapping[str, str], topic: str) -> None:
    """That of a sink task."""
    consumer = SinkConsumer(
        {**props, "group.id": unique("group"), "auto.offset.reset": "earliest"},
        {"topics": topic},
        SYSTEM_CLOCK,
        on_assign=lambda _: {},
        on_revoke=lambda _: None,
        on_lost=lambda _: None,
        on_commit=lambda *_: None,
    )
    limit = Deadline(AMPLE_S)
    try:
        while not consumer.poll(0.2):
            limit.check("reading a record")
    finally:
        consumer.close(Deadline(AMPLE_S))


def group_member(props: Mapping[str, str], topic: str) -> None:
    group = unique("group")
    servers, view = props["bootstrap.servers"], ConfigView(1, {})
    member = TestMember(servers, group, "one", lambda: view, properties=props)
    try:
        assert member.member.ensure_active(AMPLE_S)
    finally:
        member.stop()


CLIENTS = (raw, admin, producer, sink_consumer, group_member)
Client = Callable[[Mapping[str, str], str], None]


@pytest.fixture(scope="module")
def topic(brokers: Brokers) -> str:
    return create_topic(brokers.cluster.bootstrap_servers, name=unique("certificates"))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_right_certificate_is_accepted(brokers: Brokers, topic: str, client: Client) -> None:
    props = brokers.properties("GOOD")
    producer(props, topic)
    client(props, topic)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("listener", CAUSES)
def test_a_wrong_one_is_refused_and_the_cause_is_named(
    brokers: Brokers, topic: str, client: Client, listener: str
) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        client(brokers.properties(listener), topic)
    told = str(caught.value)
    assert CAUSES[listener] in told
    assert brokers.cluster.bootstrap(listener) in told
    assert "ssl." in told


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_the_old_listener_speaks_tls_1_1(brokers: Brokers) -> None:
    """Otherwise the test above would show nothing of it."""
    context = brokers.authority.client_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    host, port = brokers.cluster.bootstrap("OLD").split(":")
    with (
        socket.create_connection((host, int(port)), AMPLE_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        assert secure.version() == "TLSv1.1"
