"""Kerberos with a real KDC: every kind of client logs in with a keytab, or says why it cannot."""

from __future__ import annotations

import threading
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
from connect.clients.security.kerberos import KerberosLogin, KerberosMechanism
from connect.clients.transactions.producer import TransactionalProducer
from connect.clients.wire.bootstrap_probe import why_unreachable
from connect.clients.wire.connection import open_connection
from connect.clock import Deadline
from connect.errors import (
    AuthenticationFailed,
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    ConnectError,
)
from connect.runtime.distributed.assignment import ConfigView
from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.brokers.ports import LOOPBACK
from tests.support.chaos.needs import faketime
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, unique
from tests.support.security.certificates import Authority
from tests.support.security.kdc import REALM, Kdc, kdc, missing_for_kerberos
from tests.support.security.kerberized import LISTENERS, MIRROR, kerberized, login_properties
from tests.support.waiting import wait_until
from tests.support.workers.members import TestMember

MISSING = missing_for_kerberos()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

AMPLE_S = 30.0


@dataclass
class Realm:
    """A KDC, a cluster that trusts it, and the mirror's keytab."""

    kdc: Kdc
    cluster: KafkaCluster
    authority: Authority
    keytab: Path

    def properties(self, listener: str = "KERBEROS", **more: str) -> dict[str, str]:
        """Java properties of a client with the mirror's keytab; `_` in names stands for a dot."""
        tls = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.pem,
        }
        return {
            "bootstrap.servers": self.cluster.bootstrap(listener),
            "client.id": "kerberos",
            **login_properties(MIRROR, self.keytab),
            **(tls if listener == "SECURE" else {}),
            "security.protocol": LISTENERS[listener],
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def refused(self, properties: dict[str, str]) -> ConnectError:
        """The one sentence of why no connection can be opened."""
        error = why_unreachable(properties, Deadline(AMPLE_S))
        assert error is not None
        assert "\n" not in str(error)
        return error


@pytest.fixture(scope="module")
def realm(
    kafka: KafkaRuntime, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Realm]:
    authority = Authority()
    with kdc(tmp_path_factory.mktemp("kerberos") / "kdc") as server:
        keytab = server.keytab(MIRROR)
        with (
            pytest.MonkeyPatch.context() as patch,
            kerberized(server, kafka, session_logs, authority) as cluster,
        ):
            # As MIT's programs; Java's krb5.conf is tested with a process of its own.
            patch.setenv("KRB5_CONFIG", str(server.config))
            yield Realm(server, cluster, authority, keytab)


@pytest.mark.parametrize("listener", list(LISTENERS))
def test_raw_connections(realm: Realm, listener: str) -> None:
    settings = wire_settings(realm.properties(listener))
    connection = open_connection(*settings.bootstrap[0], settings, Deadline(AMPLE_S))
    try:
        assert len(connection.call(MetadataRequest(topics=[]), Deadline(AMPLE_S)).brokers) == 1
    finally:
        connection.close()


@pytest.mark.parametrize("listener", list(LISTENERS))
def test_admin_producer_and_group_consumer(realm: Realm, listener: str) -> None:
    topic = create_topic(realm.cluster.bootstrap_servers, "kerberos")
    admin = Admin(realm.properties(listener))
    assert topic in admin.list_topics(AMPLE_S)
    assert admin.broker_count(AMPLE_S) == 1
    admin.close()

    sender = RecordSender(realm.properties(listener))
    sent = [sender.send_future(topic, None, b"%d" % n) for n in range(100)]
    assert [future.result(AMPLE_S).offset for future in sent] == list(range(100))
    sender.close(Deadline(AMPLE_S))

    member = consumer(
        realm.properties(listener, group_id=unique("group"), auto_offset_reset="earliest")
    )
    member.subscribe([topic])
    values: list[bytes | None] = []
    deadline = Deadline(AMPLE_S)
    while len(values) < 100:
        deadline.check("reading")
        values += [message.value() for message in member.consume(100, timeout=0.5)]
    assert values == [b"%d" % n for n in range(100)]
    member.commit(offsets=[TopicPartition(topic, 0, 100)], asynchronous=False)
    assert [each.offset for each in member.committed([TopicPartition(topic, 0)])] == [100]
    member.close()


def test_transactions(realm: Realm) -> None:
    topic = create_topic(realm.cluster.bootstrap_servers, "transactions")
    producer = TransactionalProducer(realm.properties("SECURE"), unique("transactional"))
    assert producer.claim(lambda: True)
    producer.begin()
    producer.send_future(topic, None, b"aborted")
    assert producer.abort(lambda: True)
    producer.begin()
    producer.send_future(topic, None, b"committed")
    assert producer.commit(lambda: True)
    producer.close()

    def committed() -> list[bytes | None]:
        """The coordinator answers before it has written the markers."""
        servers = realm.cluster.bootstrap_servers
        return [each.value for each in read_partition(servers, topic, isolation="read_committed")]

    assert wait_until(committed, AMPLE_S, "the committed record") == [b"committed"]


def test_a_group_member(realm: Realm) -> None:
    member = TestMember(
        realm.cluster.bootstrap("KERBEROS"),
        unique("connect-group"),
        "one",
        lambda: ConfigView(1, {"c": 2}),
        properties=realm.properties(),
    ).start()
    try:
        wait_until(lambda: member.failure or len(member.running) == 3, AMPLE_S, "an assignment")
        assert member.failure is None
    finally:
        member.stop()


def test_the_brokers_rule_makes_the_principal_a_user_with_rights(realm: Realm) -> None:
    """auth_to_local: another principal of the realm is let in, but may do nothing."""
    stranger = realm.kdc.keytab("mirrormaker/other.example")
    topic = create_topic(realm.cluster.bootstrap_servers, "kerberos-rights")
    admin = Admin({**realm.properties(), **login_properties("mirrormaker/other.example", stranger)})
    assert topic not in admin.list_topics(AMPLE_S)
    admin.close()


def test_a_ticket_cache(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cc"
    options = f'useTicketCache=true ticketCache="{cache}" principal="{MIRROR}@{REALM}"'
    properties = realm.properties(sasl_jaas_config=f"a.Krb5LoginModule required {options};")
    error = realm.refused(properties)
    assert isinstance(error, AuthenticationFailed)
    assert "run kinit" in str(error)

    realm.kdc.kinit(MIRROR, realm.keytab, cache)
    assert why_unreachable(properties, Deadline(AMPLE_S)) is None


def test_a_wrong_service_name(realm: Realm) -> None:
    properties = realm.properties(sasl_kerberos_service_name="kafak")
    error = realm.refused(properties)
    assert isinstance(error, AuthenticationFailed)
    assert "the KDC has no principal kafak/127.0.0.1; check sasl.kerberos.service.name" in str(
        error
    )

    admin = Admin(properties)
    with pytest.raises(ConnectError):
        admin.list_topics(3)
    admin.close()


def test_librdkafka_clients_say_the_same(realm: Realm, caplog: pytest.LogCaptureFixture) -> None:
    sender = RecordSender(realm.properties(sasl_kerberos_service_name="kafak"))
    wait_until(
        lambda: "the KDC has no principal kafak/127.0.0.1" in caplog.text, AMPLE_S, "a reason"
    )
    sender.close(Deadline(0))


def test_a_missing_keytab(realm: Realm, tmp_path: Path) -> None:
    missing = tmp_path / "none.keytab"
    error = realm.refused({**realm.properties(), **login_properties(MIRROR, missing)})
    assert isinstance(error, ConfigError)
    assert f"the keyTab {missing} of sasl.jaas.config cannot be read on" in str(error)


def test_a_keytab_without_the_principal(realm: Realm) -> None:
    error = realm.refused({**realm.properties(), **login_properties("someone", realm.keytab)})
    assert isinstance(error, AuthenticationFailed)
    assert "the keytab has no key of this principal" in str(error)


def test_a_keytab_whose_key_was_replaced(realm: Realm, tmp_path: Path) -> None:
    principal = "mirrormaker/rekeyed.example"
    old = realm.kdc.keytab(principal)
    realm.kdc.keytab(principal, tmp_path / "new.keytab")
    error = realm.refused({**realm.properties(), **login_properties(principal, old)})
    assert isinstance(error, AuthenticationFailed)
    assert "the KDC refused the keytab's key" in str(error)


def test_an_expired_principal(realm: Realm) -> None:
    principal = "mirrormaker/expired.example"
    keytab = realm.kdc.keytab(principal)
    realm.kdc.administer(f"modprinc -expire 2001-01-01 {principal}")
    error = realm.refused({**realm.properties(), **login_properties(principal, keytab)})
    assert isinstance(error, AuthenticationFailed)
    assert "the principal has expired" in str(error)


def test_clock_skew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = faketime()
    if library is None:
        pytest.skip("needs libfaketime (apt-get install libfaketime)")
    an_hour_ago = {"LD_PRELOAD": str(library), "FAKETIME": "-1h"}
    with kdc(tmp_path / "kdc", more="kdc_timesync = 0", environment=an_hour_ago) as server:
        login = KerberosLogin("kafka", f"{MIRROR}@{REALM}", str(server.keytab(MIRROR)))
        monkeypatch.setenv("KRB5_CONFIG", str(server.config))
        with pytest.raises(AuthenticationFailed, match="clock skew: this host's clock"):
            KerberosMechanism(login, LOOPBACK)


def test_no_kdc_is_a_reason_to_try_again(realm: Realm, caplog: pytest.LogCaptureFixture) -> None:
    principal = "mirrormaker/patient.example"
    properties = {**realm.properties(), **login_properties(principal, realm.kdc.keytab(principal))}
    realm.kdc.stop()
    try:
        error = realm.refused(properties)
        assert isinstance(error, BrokerUnavailable)
        said = "no KDC answers the Kerberos login of mirrormaker/patient.example"
        assert said in str(error)
        sender = RecordSender(properties)
        wait_until(lambda: said in caplog.text, AMPLE_S, "a reason in the log")
    finally:
        realm.kdc.start()
    topic = create_topic(realm.cluster.bootstrap_servers)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        # Only the broker knows that this principal may not write.
        sender.send_future(topic, None, b"late").result(AMPLE_S)
    sender.close(Deadline(AMPLE_S))
    assert why_unreachable(properties, Deadline(AMPLE_S)) is None


def test_a_clients_end_is_its_proxys(realm: Realm) -> None:
    client_id = unique("admin")

    def has_proxy() -> bool:
        return f"sasl-proxy-{client_id}" in {one.name for one in threading.enumerate()}

    admin = Admin({**realm.properties(), "client.id": client_id})
    assert admin.broker_count(AMPLE_S) == 1
    assert has_proxy()
    admin.close()
    wait_until(lambda: not has_proxy(), AMPLE_S, "the proxy's end")
