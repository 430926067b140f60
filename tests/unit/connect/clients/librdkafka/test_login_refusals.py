"""A refusal that librdkafka reports counts once a connection of our own is refused, too."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from connect.clients.librdkafka.login_refusals import LoginRefusals
from connect.errors import AuthenticationFailed
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from tests.unit.connect.clients.hostile_peer import (
    HostilePeer,
    api_versions_frame,
    frame,
    response_frame,
    unused_port,
)

REFUSED = KafkaError(KafkaError._AUTHENTICATION)
EMPTY_METADATA = struct.pack(">iii", 0, 7, 0)
"""Version 1 without brokers and topics, with controller 7."""

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def _login(error: int) -> bytes:
    """The answers to a login with PLAIN."""
    handshake = SaslHandshakeResponse(version=1, error_code=0, mechanisms=["PLAIN"])
    result = SaslAuthenticateResponse(
        version=2, error_code=error, error_message="no", auth_bytes=b"", session_lifetime_ms=0
    )
    versions = api_versions_frame(1, (3, 0, 1), (17, 0, 1), (18, 0, 3), (36, 0, 2))
    answers = versions + response_frame(2, handshake) + response_frame(3, result)
    return answers if error else answers + frame(4, EMPTY_METADATA)


@pytest.fixture
def peer() -> Iterator[HostilePeer]:
    with HostilePeer(_login(error=58)) as refusing:
        yield refusing


def at(port: int, clock: FakeClock | None = None) -> LoginRefusals:
    properties = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_MODULE} required username="ali" password="open-sesame";',
    }
    return LoginRefusals(properties, clock or FakeClock())


def test_nobody_is_asked_before_the_client_reports_a_refusal(peer: HostilePeer) -> None:
    refusals = at(peer.port)
    refusals.note(KafkaError(KafkaError._TRANSPORT))
    assert refusals.ask() is None
    assert refusals.step(waiting=True) is None
    assert peer.received == b""


def test_a_refusal_that_is_met_again_counts(peer: HostilePeer) -> None:
    refusals = at(peer.port)
    refusals.note(REFUSED)
    refusal = refusals.ask()
    assert isinstance(refusal, AuthenticationFailed)
    assert "was refused: no" in str(refusal)


def test_who_may_not_wait_is_told_later(peer: HostilePeer) -> None:
    clock = FakeClock()
    refusals = at(peer.port, clock)
    refusals.note(REFUSED)
    assert refusals.step(waiting=False) is None
    assert refusals.step(waiting=True) is None
    clock.advance(1.0)
    found = wait_until(lambda: refusals.step(waiting=True), 10.0, "the refusal")
    refusals.close()
    assert isinstance(found, AuthenticationFailed)


def test_a_login_that_works_by_now_ends_the_suspicion() -> None:
    with HostilePeer(_login(error=0)) as peer:
        refusals = at(peer.port)
        refusals.note(REFUSED)
        assert refusals.ask() is None
        assert not refusals._suspected


def test_an_answer_to_the_client_ends_the_suspicion(peer: HostilePeer) -> None:
    refusals = at(peer.port)
    refusals.note(REFUSED)
    refusals.answered()
    assert refusals.ask() is None
    assert peer.received == b""


def test_brokers_that_are_away_refuse_nothing() -> None:
    refusals = at(unused_port())
    refusals.note(REFUSED)
    assert refusals.ask() is None
