"""TLS settings from Java's names; a handshake shows what an SSLContext really does."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path

import pytest

from connect.clients import warn_once
from connect.clients.security.tls import (
    librdkafka_tls,
    server_ssl_context,
    ssl_context,
    verifies_hostname,
)
from connect.errors import ConfigError

STORES = Path(__file__).parents[4] / "golden" / "key_stores"
CLIENT = {
    "ssl.keystore.location": str(STORES / "client.p12"),
    "ssl.keystore.password": "changeit",
    "ssl.truststore.location": str(STORES / "trust.jks"),
    "ssl.truststore.password": "changeit",
}


@pytest.fixture(autouse=True)
def _fresh_notices() -> None:
    warn_once._seen.clear()


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """A TLS handshake in memory; the client's side, once it is done."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=host)
    two = server.wrap_bio(to_server, to_client, server_side=True)
    done = {"client": False, "server": False}
    for _ in range(10):
        for name, side in (("client", one), ("server", two)):
            if not done[name]:
                try:
                    side.do_handshake()
                    done[name] = True
                except ssl.SSLWantReadError:
                    pass
        if all(done.values()):
            return one
    raise AssertionError("the handshake did not end")


@pytest.fixture
def server(tmp_path: Path) -> ssl.SSLContext:
    """A server that shows the certificate CN=client, and asks for one."""
    config = librdkafka_tls(CLIENT)
    pem = tmp_path / "server.pem"
    pem.write_text(config["ssl.certificate.pem"] + config["ssl.key.pem"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    context.load_verify_locations(cafile=STORES / "root.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_a_client_shows_its_chain_and_trusts_by_its_store(server: ssl.SSLContext) -> None:
    context = ssl_context({**CLIENT, "ssl.endpoint.identification.algorithm": ""})
    done = handshake(context, server, "broker")
    assert done.version() == "TLSv1.3"


def test_a_certificate_for_another_host_is_refused_unless_switched_off(
    server: ssl.SSLContext,
) -> None:
    context = ssl_context(CLIENT)
    assert context.check_hostname
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, server, "broker")


def test_a_broker_that_the_store_does_not_know_is_refused(server: ssl.SSLContext) -> None:
    props = {"ssl.endpoint.identification.algorithm": ""}
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(ssl_context(props), server, "broker")


def test_versions_are_limited(server: ssl.SSLContext) -> None:
    context = ssl_context(
        {**CLIENT, "ssl.endpoint.identification.algorithm": "", "ssl.protocol": "TLSv1.2"}
    )
    assert handshake(context, server, "broker").version() == "TLSv1.2"
    only_13 = ssl_context({"ssl.enabled.protocols": "TLSv1.3"})
    assert only_13.minimum_version == ssl.TLSVersion.TLSv1_3


def _only_tls_1_1(context: ssl.SSLContext) -> ssl.SSLContext:
    with warnings.catch_warnings(action="ignore"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    # What OpenSSL itself would refuse.
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def test_a_broker_that_has_only_tls_1_1_is_refused(server: ssl.SSLContext) -> None:
    context = ssl_context({**CLIENT, "ssl.endpoint.identification.algorithm": ""})
    # Not because of the strength of its keys, either.
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match=r"PROTOCOL|VERSION"):
        handshake(context, _only_tls_1_1(server), "broker")


def test_a_listener_refuses_clients_that_have_only_tls_1_1() -> None:
    listener = server_ssl_context(CLIENT)
    listener.set_ciphers("ALL:@SECLEVEL=0")
    client = _only_tls_1_1(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    with pytest.raises(ssl.SSLError, match=r"PROTOCOL|VERSION"):
        handshake(client, listener, "worker")


@pytest.mark.parametrize(
    ("suites", "expected"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_CCM", "DHE-RSA-AES256-CCM"),
        (
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, ECDHE-RSA-AES128-GCM-SHA256",
            "ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256",
        ),
    ],
)
def test_javas_cipher_names_become_openssls(suites: str, expected: str) -> None:
    props = {"ssl.cipher.suites": suites}
    assert librdkafka_tls(props)["ssl.cipher.suites"] == expected
    chosen = {cipher["name"] for cipher in ssl_context(props).get_ciphers()}
    assert set(expected.split(":")) <= chosen


def test_tls_13_suites_cannot_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    assert "ssl.cipher.suites" not in librdkafka_tls(
        {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}
    )
    assert "cannot be selected individually" in caplog.text


@pytest.mark.parametrize(
    ("props", "key"),
    [
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol"),
        ({"ssl.enabled.protocols": "TLSv1.4"}, "ssl.enabled.protocols"),
        ({"ssl.cipher.suites": "NO_SUCH"}, "ssl.cipher.suites"),
        (
            {"ssl.endpoint.identification.algorithm": "ldaps"},
            "ssl.endpoint.identification.algorithm",
        ),
        ({"ssl.engine.factory.class": "org.example.X"}, "ssl.engine.factory.class"),
    ],
)
def test_wrong_values_are_named(props: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ssl_context(props)
    assert caught.value.key == key


@pytest.mark.parametrize(("algorithm", "checked"), [("https", True), ("HTTPS", True), ("", False)])
def test_the_host_is_checked_unless_the_algorithm_is_empty(algorithm: str, checked: bool) -> None:
    props = {"ssl.endpoint.identification.algorithm": algorithm}
    assert verifies_hostname(props) is checked
    shown = librdkafka_tls(props)["ssl.endpoint.identification.algorithm"]
    assert shown == ("https" if checked else "none")
