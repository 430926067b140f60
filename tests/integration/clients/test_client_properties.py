"""The same Java properties open both kinds of connections to a broker with TLS and SASL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from kafka.protocol.metadata import MetadataRequest

from connect.clients.config.properties import wire_settings
from connect.clients.librdkafka.factory import admin_client
from connect.clients.wire.connection import open_connection
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, ConnectError
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.security.certificates import Authority
from tests.support.security.secure_listeners import SECRET, sasl_properties, tls_properties

AMPLE_S = 30.0
REFUSED_S = 5.0
STORE_PASSWORD = "store-password"
SECURITY = "org.apache.kafka.common.security."
USER = f'username="ali" password="{SECRET}"'
LISTENERS = {"SASL": "SASL_PLAINTEXT", "MUTUAL": "SSL", "SECURE": "SASL_SSL"}


@dataclass
class Secure:
    """A broker, and stores on disk that fit it."""

    cluster: KafkaCluster
    authority: Authority
    stores: Path

    def properties(self, listener: str, **more: str) -> dict[str, str]:
        """Java client properties for a listener; `_` in names stands for a dot."""
        return {
            "bootstrap.servers": self.cluster.bootstrap(listener),
            "client.id": "client-properties",
            "security.protocol": LISTENERS[listener],
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def trust(self) -> dict[str, str]:
        return {
            "ssl_truststore_location": str(self.stores / "trust.p12"),
            "ssl_truststore_password": STORE_PASSWORD,
            "ssl_truststore_type": "PKCS12",
        }


def write_stores(folder: Path, authority: Authority) -> None:
    key_pem, certificate_pem = authority.issue("client")
    key = load_pem_private_key(key_pem.encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
    root = x509.load_pem_x509_certificate(authority.pem.encode())
    own = x509.load_pem_x509_certificate(certificate_pem.encode())
    (folder / "client.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"client", key, own, [root], encryption)
    )
    (folder / "client.pem").write_text(key_pem + certificate_pem)
    (folder / "trust.p12").write_bytes(
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(root, b"root")], encryption)
    )


@pytest.fixture(scope="module")
def secure(
    kafka: KafkaRuntime, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secure]:
    authority = Authority()
    stores = tmp_path_factory.mktemp("stores")
    write_stores(stores, authority)
    properties = {**sasl_properties("sasl"), **sasl_properties("secure")}
    for listener in ("mutual", "secure"):
        properties |= tls_properties(listener, authority, "127.0.0.1")
    scram = [f"SCRAM-SHA-{size}=[name=ali,password={SECRET}]" for size in (256, 512)]
    with KafkaCluster(
        name="client-properties",
        kafka=kafka,
        logs=session_logs,
        listeners=LISTENERS,
        properties=properties,
        format_arguments=[part for value in scram for part in ("--add-scram", value)],
    ) as cluster:
        yield Secure(cluster, authority, stores)


def use_raw(props: dict[str, str]) -> None:
    """A raw connection asks something that only an authenticated client is told."""
    settings = wire_settings(props)
    connection = open_connection(*settings.bootstrap[0], settings, Deadline(AMPLE_S))
    try:
        assert len(connection.call(MetadataRequest(topics=[]), Deadline(AMPLE_S)).brokers) == 1
    finally:
        connection.close()


def use(props: dict[str, str]) -> None:
    """Both kinds of clients do."""
    use_raw(props)
    assert len(admin_client(props).list_topics(timeout=AMPLE_S).brokers) == 1


@pytest.mark.parametrize("listener", ["SASL", "SECURE"])
@pytest.mark.parametrize(
    ("mechanism", "jaas"),
    [
        ("PLAIN", f"{SECURITY}plain.PlainLoginModule required {USER};"),
        ("SCRAM-SHA-256", f"{SECURITY}scram.ScramLoginModule required {USER};"),
        ("SCRAM-SHA-512", f"{SECURITY}scram.ScramLoginModule required\n    {USER};"),
        (
            "OAUTHBEARER",
            f"{SECURITY}oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="ali";',
        ),
    ],
)
def test_sasl(secure: Secure, listener: str, mechanism: str, jaas: str) -> None:
    tls = secure.trust() if listener == "SECURE" else {}
    use(secure.properties(listener, sasl_mechanism=mechanism, sasl_jaas_config=jaas, **tls))


def test_a_client_certificate_from_a_pkcs12_store(secure: Secure) -> None:
    use(
        secure.properties(
            "MUTUAL",
            ssl_keystore_location=str(secure.stores / "client.p12"),
            ssl_keystore_password=STORE_PASSWORD,
            **secure.trust(),
        )
    )


def test_a_client_certificate_from_pem(secure: Secure) -> None:
    pem = (secure.stores / "client.pem").read_text()
    use(
        secure.properties(
            "MUTUAL",
            ssl_keystore_type="PEM",
            ssl_keystore_location=str(secure.stores / "client.pem"),
            ssl_truststore_type="PEM",
            ssl_truststore_certificates=secure.authority.pem,
        )
    )
    on_one_line = " ".join(pem.split("\n"))
    use(
        secure.properties(
            "MUTUAL",
            ssl_keystore_type="PEM",
            ssl_keystore_key=on_one_line,
            ssl_keystore_certificate_chain=on_one_line,
            **secure.trust(),
        )
    )


@pytest.mark.parametrize(
    ("version", "suites"),
    [
        ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_versions_and_ciphers(secure: Secure, version: str, suites: str) -> None:
    pem = (secure.stores / "client.pem").read_text()
    use(
        secure.properties(
            "MUTUAL",
            ssl_protocol=version,
            ssl_enabled_protocols=version,
            ssl_cipher_suites=suites,
            ssl_keystore_type="PEM",
            ssl_keystore_key=pem,
            ssl_keystore_certificate_chain=pem,
            **secure.trust(),
        )
    )


def test_what_is_wrong_is_refused_by_both(secure: Secure) -> None:
    """Otherwise the tests above would show nothing."""
    jaas = f'{SECURITY}plain.PlainLoginModule required username="ali" password="wrong";'
    wrong = secure.properties("SASL", sasl_mechanism="PLAIN", sasl_jaas_config=jaas)
    with pytest.raises(AuthenticationFailed):
        use_raw(wrong)
    with pytest.raises(KafkaException):
        admin_client(wrong).list_topics(timeout=REFUSED_S)
    without_certificate = secure.properties("MUTUAL", **secure.trust())
    with pytest.raises(ConnectError):
        use_raw(without_certificate)
    with pytest.raises(KafkaException):
        admin_client(without_certificate).list_topics(timeout=REFUSED_S)
