"""Raw connections to a broker with TLS and SASL: what must work does, what must not is refused."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.metadata import MetadataRequest

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.config.settings import WireSettings
from connect.clients.wire.connection import WireConnection, open_connection
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import AuthenticationFailed, BrokerUnavailable, ConnectError, CorruptData
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.security.certificates import Authority
from tests.support.security.secure_listeners import (
    SECRET,
    SESSION_MS,
    sasl_properties,
    tls_properties,
)

AMPLE_S = 30.0
WRONG = "close-sesame"
LISTENERS = {
    "SASL": "SASL_PLAINTEXT",
    "SHORT": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SECURE": "SASL_SSL",
    "STRANGER": "SSL",
    "EXPIRED": "SSL",
}


@dataclass
class Secure:
    """The broker under test and the authority it trusts."""

    cluster: KafkaCluster
    authority: Authority

    def address(self, listener: str) -> tuple[str, int]:
        host, port = self.cluster.bootstrap(listener).split(":")
        return host, int(port)

    def settings(
        self,
        listener: str,
        mechanism: str | None = None,
        sasl: Mapping[str, object] | None = None,
        protocol: str | None = None,
        context: ssl.SSLContext | None = None,
    ) -> WireSettings:
        chosen = protocol or LISTENERS.get(listener, "PLAINTEXT")
        if context is None and chosen.endswith("SSL"):
            context = self.authority.client_context()
        return WireSettings(
            bootstrap=(self.address(listener),),
            client_id="wire-security",
            security_protocol=chosen,
            ssl_context=context,
            sasl_mechanism=mechanism,
            sasl=sasl or {},
            metadata_max_age_ms=200,
        )

    def open(self, listener: str, settings: WireSettings) -> WireConnection:
        return open_connection(*self.address(listener), settings, Deadline(AMPLE_S))

    def refused(self, listener: str, settings: WireSettings) -> ConnectError:
        """Why a connection could not be opened and used."""
        with pytest.raises(ConnectError) as caught:
            use(self.open(listener, settings))
        told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        assert SECRET not in told
        assert WRONG not in told
        return caught.value


def use(connection: WireConnection) -> None:
    """Ask something that only an authenticated client is told, and close."""
    try:
        response = connection.call(MetadataRequest(topics=[]), Deadline(AMPLE_S))
        assert len(response.brokers) == 1
    finally:
        connection.close()


@pytest.fixture(scope="module")
def secure(kafka: KafkaRuntime, session_logs: Path) -> Iterator[Secure]:
    authority, stranger = Authority(), Authority()
    properties = {**sasl_properties("sasl"), **sasl_properties("short")}
    properties |= sasl_properties("secure")
    for listener in ("tls", "mutual", "secure"):
        properties |= tls_properties(listener, authority, "127.0.0.1")
    properties |= tls_properties("stranger", stranger, "127.0.0.1")
    properties |= tls_properties("expired", authority, "127.0.0.1", expired=True)
    scram = [f"SCRAM-SHA-{size}=[name=ali,password={SECRET}]" for size in (256, 512)]
    with KafkaCluster(
        name="secure",
        kafka=kafka,
        logs=session_logs,
        listeners=LISTENERS,
        properties=properties,
        format_arguments=[part for value in scram for part in ("--add-scram", value)],
    ) as cluster:
        yield Secure(cluster, authority)


def credentials(password: str = SECRET, user: str = "ali") -> dict[str, object]:
    return {"sasl_plain_username": user, "sasl_plain_password": password}


@pytest.mark.parametrize("listener", ["SASL", "SECURE"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_right_password_is_accepted(secure: Secure, listener: str, mechanism: str) -> None:
    settings = secure.settings(listener, mechanism, credentials())
    connection = secure.open(listener, settings)
    assert connection.session_lifetime_ms == 0
    use(connection)


@pytest.mark.parametrize("listener", ["SASL", "SECURE"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_for_good_and_not_repeated(
    secure: Secure, listener: str, mechanism: str
) -> None:
    error = secure.refused(listener, secure.settings(listener, mechanism, credentials(WRONG)))
    assert isinstance(error, AuthenticationFailed)
    assert not error.retriable
    assert mechanism in str(error)


def test_a_scram_user_with_reserved_characters_is_accepted(secure: Secure) -> None:
    admin = AdminClient({"bootstrap.servers": secure.cluster.bootstrap_servers})
    change = UserScramCredentialUpsertion(
        "a,b=c", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), SECRET.encode()
    )
    admin.alter_user_scram_credentials([change])["a,b=c"].result(AMPLE_S)
    sasl = credentials(user="a,b=c")
    use(secure.open("SASL", secure.settings("SASL", "SCRAM-SHA-256", sasl)))


def test_a_mechanism_the_broker_does_not_offer_is_told_with_those_it_does(secure: Secure) -> None:
    settings = secure.settings("SASL", "GSSAPI", {"sasl_kerberos_service_name": "kafka"})
    error = secure.refused("SASL", settings)
    assert isinstance(error, AuthenticationFailed)
    assert "OAUTHBEARER" in str(error)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Unsecured JSON web tokens, as a broker without a validator takes them."""

    def __init__(self, lifetime_s: int) -> None:
        super().__init__()
        self._lifetime_s = lifetime_s

    def token(self) -> str:
        now = SYSTEM_CLOCK.now_ms() // 1000
        claims = {"sub": "ali", "iat": now - 60, "exp": now + self._lifetime_s}
        parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
        encoded = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts]
        return ".".join([*encoded, ""])


def test_a_token_is_accepted_until_it_expires(secure: Secure) -> None:
    def settings(lifetime_s: int) -> WireSettings:
        sasl = {"sasl_oauth_token_provider": Tokens(lifetime_s)}
        return secure.settings("SASL", "OAUTHBEARER", sasl)

    use(secure.open("SASL", settings(600)))
    assert isinstance(secure.refused("SASL", settings(-40)), AuthenticationFailed)


def test_a_trusted_certificate_for_the_right_host_is_accepted(secure: Secure) -> None:
    use(secure.open("TLS", secure.settings("TLS")))


def test_a_certificate_of_an_unknown_authority_is_not_accepted(secure: Secure) -> None:
    error = secure.refused("STRANGER", secure.settings("STRANGER"))
    assert isinstance(error, AuthenticationFailed)
    assert "truststore" in str(error)


def test_an_expired_certificate_is_named(secure: Secure) -> None:
    error = secure.refused("EXPIRED", secure.settings("EXPIRED"))
    assert isinstance(error, AuthenticationFailed)
    assert "certificate has expired" in str(error)


def test_a_certificate_for_another_host_is_accepted_only_unchecked(secure: Secure) -> None:
    settings = secure.settings("TLS")
    _, port = secure.address("TLS")
    with pytest.raises(AuthenticationFailed, match=r"Hostname mismatch.*endpoint\.identification"):
        open_connection("localhost", port, settings, Deadline(AMPLE_S))
    assert settings.ssl_context is not None
    settings.ssl_context.check_hostname = False
    use(open_connection("localhost", port, settings, Deadline(AMPLE_S)))


def test_a_client_certificate_is_shown_where_the_broker_asks_for_it(
    secure: Secure, tmp_path: Path
) -> None:
    error = secure.refused("MUTUAL", secure.settings("MUTUAL"))
    assert isinstance(error, AuthenticationFailed | BrokerUnavailable)

    key, certificate = secure.authority.issue("client")
    pair = tmp_path / "client.pem"
    pair.write_text(key + certificate)
    context = secure.authority.client_context()
    context.load_cert_chain(pair)
    use(secure.open("MUTUAL", secure.settings("MUTUAL", context=context)))


def test_a_wrong_security_protocol_is_an_error_that_says_so(secure: Secure) -> None:
    plain_to_tls = secure.refused("TLS", secure.settings("TLS", protocol="PLAINTEXT"))
    assert isinstance(plain_to_tls, CorruptData | BrokerUnavailable)
    assert "security.protocol" in str(plain_to_tls)

    tls_to_plain = secure.refused("PLAINTEXT", secure.settings("PLAINTEXT", protocol="SSL"))
    assert isinstance(tls_to_plain, AuthenticationFailed | BrokerUnavailable)
    assert "security.protocol" in str(tls_to_plain)

    plain_to_sasl = secure.refused("SASL", secure.settings("SASL", protocol="PLAINTEXT"))
    assert "security.protocol" in str(plain_to_sasl)

    settings = secure.settings("PLAINTEXT", "PLAIN", credentials(), protocol="SASL_PLAINTEXT")
    sasl_to_plain = secure.refused("PLAINTEXT", settings)
    assert isinstance(sasl_to_plain, AuthenticationFailed)
    assert "security.protocol" in str(sasl_to_plain)


def test_a_link_authenticates_again_before_its_session_ends(secure: Secure) -> None:
    settings = secure.settings("SHORT", "PLAIN", credentials())
    connection = secure.open("SHORT", settings)
    assert 0 < connection.session_lifetime_ms <= SESSION_MS
    use(connection)

    failures: list[ConnectError] = []
    enough = threading.Event()
    links: list[ClusterLink] = []
    begun = SYSTEM_CLOCK.monotonic()

    def on_change() -> None:
        if links and links[0].failure is not None:
            failures.append(links[0].failure)
        if SYSTEM_CLOCK.monotonic() - begun > 3 * SESSION_MS / 1000:
            enough.set()

    links.append(ClusterLink(settings, on_change))
    try:
        assert enough.wait(AMPLE_S)
        assert links[0].snapshot.version > 3
        assert failures == []
    finally:
        links[0].close()


def test_a_link_with_a_wrong_password_says_so_and_fails_its_calls(secure: Secure) -> None:
    changed = threading.Event()
    link = ClusterLink(secure.settings("SASL", "PLAIN", credentials(WRONG)), changed.set)
    try:
        assert changed.wait(AMPLE_S)
        assert isinstance(link.failure, AuthenticationFailed)
        with pytest.raises(AuthenticationFailed):
            link.init_producer_id().result(AMPLE_S)
    finally:
        link.close()


def test_a_link_works_over_tls_and_scram(secure: Secure) -> None:
    changed = threading.Event()
    settings = secure.settings("SECURE", "SCRAM-SHA-512", credentials())
    link = ClusterLink(settings, changed.set)
    try:
        producer_id, epoch = link.init_producer_id().result(AMPLE_S)
        assert producer_id >= 0
        assert epoch == 0
        (node_id,) = link.snapshot.nodes
        use(link.connect(node_id).result(AMPLE_S))
    finally:
        link.close()
