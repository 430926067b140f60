"""SASL against peers that refuse, garble or repeat what they were told: no error holds a secret."""

from __future__ import annotations

import socket
import traceback
import uuid
from collections.abc import Mapping

import pytest
from kafka.net.sasl import SASL_MECHANISMS
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from connect.clients.config.settings import WireSettings
from connect.clients.groups.member_network import GroupNetwork, GroupTimeouts
from connect.clients.wire.connection import WireConnection
from connect.clients.wire.sasl import authenticate
from connect.clock import Deadline
from connect.errors import (
    AuthenticationFailed,
    ConfigError,
    RetriableBrokerError,
)
from tests.unit.connect.clients.hostile_peer import response_frame

SECRET = "open-sesame"
CREDENTIALS = {"sasl_plain_username": "ali", "sasl_plain_password": SECRET}
SASL_VERSIONS = {17: (0, 1), 36: (0, 2)}


def attempt(
    mechanism: str,
    script: bytes,
    sasl: Mapping[str, object] = CREDENTIALS,
    sent: bytearray | None = None,
) -> int:
    """Authenticate at a peer that sends `script`; the session's lifetime. `sent` gets our bytes."""
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    settings = WireSettings(
        bootstrap=(), security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl=sasl
    )
    connection = WireConnection(ours, "broker", 9092, "tester")
    connection.api_versions = SASL_VERSIONS
    with peer:
        peer.sendall(script)
        try:
            return authenticate(connection, settings, Deadline(10))
        finally:
            connection.close()
            if sent is not None:
                sent += peer.recv(65536)


def handshake(*offered: str, error_code: int = 0) -> bytes:
    response = SaslHandshakeResponse(version=1, error_code=error_code, mechanisms=list(offered))
    return response_frame(1, response)


def answer(
    correlation_id: int, token: bytes = b"", error: int = 0, message: str = "", lifetime: int = 0
) -> bytes:
    response = SaslAuthenticateResponse(
        version=2,
        error_code=error,
        error_message=message,
        auth_bytes=token,
        session_lifetime_ms=lifetime,
    )
    return response_frame(correlation_id, response)


def everything_told(error: BaseException) -> str:
    """All that a log with a traceback would show."""
    return "".join(traceback.format_exception(error)) + repr(error)


def test_the_session_lifetime_is_what_the_broker_says() -> None:
    script = handshake("PLAIN") + answer(2, lifetime=60_000)
    assert attempt("PLAIN", script) == 60_000


def test_a_refusal_repeats_the_brokers_words_without_the_secret() -> None:
    script = handshake("PLAIN") + answer(2, error=58, message=f"{SECRET} is wrong for ali")
    with pytest.raises(AuthenticationFailed, match=r"broker:9092 .*\[hidden\] is wrong") as caught:
        attempt("PLAIN", script)
    assert not caught.value.retriable
    assert SECRET not in everything_told(caught.value)


def test_a_busy_broker_is_worth_another_attempt() -> None:
    with pytest.raises(RetriableBrokerError):
        attempt("PLAIN", handshake("PLAIN") + answer(2, error=15))


def test_a_mechanism_the_broker_does_not_offer_is_told_with_those_it_does() -> None:
    with pytest.raises(AuthenticationFailed, match=r"PLAIN; it offers GSSAPI, SCRAM-SHA-512"):
        attempt("PLAIN", handshake("GSSAPI", "SCRAM-SHA-512", error_code=33))


def test_a_listener_without_sasl_points_at_the_security_protocol() -> None:
    with pytest.raises(AuthenticationFailed, match=r"security\.protocol"):
        attempt("PLAIN", handshake(error_code=34))


def test_a_mechanism_nobody_knows_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value SPELL .*one of .*PLAIN"):
        attempt("SPELL", handshake("SPELL"))


def test_missing_credentials_are_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"check sasl\.jaas\.config"):
        attempt("PLAIN", handshake("PLAIN"), {})


@pytest.mark.parametrize(
    "token",
    [b"", b"r=other-nonce,s=c2FsdA==,i=4096", b"\xff\xfe", f"e={SECRET}".encode()],
    ids=["empty", "nonce", "not-text", "echo"],
)
def test_a_garbled_scram_exchange_fails_without_secrets(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="broker:9092") as caught:
        attempt("SCRAM-SHA-256", handshake("SCRAM-SHA-256") + answer(2, token))
    assert SECRET not in everything_told(caught.value)


def test_a_scram_user_name_is_escaped() -> None:
    sent = bytearray()
    script = handshake("SCRAM-SHA-256") + answer(2, error=58)
    sasl = {"sasl_plain_username": "a,b=c", "sasl_plain_password": SECRET}
    with pytest.raises(AuthenticationFailed):
        attempt("SCRAM-SHA-256", script, sasl, sent)
    assert b"n,,n=a=2Cb=3Dc,r=" in sent


@pytest.mark.parametrize("iterations", [1, 4095])
def test_too_few_scram_iterations_are_refused(
    monkeypatch: pytest.MonkeyPatch, iterations: int
) -> None:
    """Nothing that is computed from the password is sent then."""
    monkeypatch.setattr(uuid, "uuid4", lambda: "nonce")
    sent = bytearray()
    first = f"r=nonce-of-the-broker,s=c2FsdA==,i={iterations}".encode()
    with pytest.raises(AuthenticationFailed, match="at least 4096"):
        attempt("SCRAM-SHA-256", handshake("SCRAM-SHA-256") + answer(2, first), sent=sent)
    assert b"p=" not in sent


def test_the_brokers_scram_signature_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: "nonce")
    script = handshake("SCRAM-SHA-256") + answer(2, b"r=nonce-more,s=c2FsdA==,i=4096")
    with pytest.raises(AuthenticationFailed, match="does not know the user's SCRAM credentials"):
        attempt("SCRAM-SHA-256", script + answer(3, b"v=d3Jvbmc="))


def test_a_group_member_escapes_a_scram_user_too() -> None:
    GroupNetwork(WireSettings((("127.0.0.1", 9),), "c"), GroupTimeouts()).close(5)
    made = SASL_MECHANISMS["SCRAM-SHA-512"](
        sasl_mechanism="SCRAM-SHA-512", sasl_plain_username="a,b=c", sasl_plain_password=SECRET
    )
    assert made.auth_bytes().startswith(b"n,,n=a=2Cb=3Dc,r=")


class FailingProvider(AbstractTokenProvider):  # type: ignore[misc]
    """A token provider whose error quotes its secret."""

    def token(self) -> str:
        raise ValueError(f"cannot reach https://issuer?secret={SECRET}")


def test_what_a_token_provider_says_is_not_repeated() -> None:
    with pytest.raises(AuthenticationFailed, match="ValueError") as caught:
        attempt(
            "OAUTHBEARER",
            handshake("OAUTHBEARER"),
            {"sasl_oauth_token_provider": FailingProvider()},
        )
    assert SECRET not in everything_told(caught.value)
