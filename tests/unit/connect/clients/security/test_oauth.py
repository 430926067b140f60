"""Getting tokens from an OAuth server: a real HTTP server on loopback."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.clients.security.oauth import (
    ClientCredentials,
    ClientCredentialsProvider,
    FileTokenProvider,
    TokenEndpoint,
)
from connect.errors import BrokerUnavailable, ConfigError
from tests.support.fake_clock import FakeClock
from tests.support.security.token_server import AMPLE_S, TokenServer, running_token_server
from tests.support.waiting import wait_until


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with running_token_server() as running:
        yield running


def provider(
    server: TokenServer, clock: FakeClock, *, url_encode: bool = False
) -> ClientCredentialsProvider:
    credentials = ClientCredentials("my id", "hunter2:&", "a b", url_encode)
    return ClientCredentialsProvider(credentials, TokenEndpoint(server.url), {"x": "y"}, clock)


def test_a_token_is_asked_for_with_client_credentials(server: TokenServer) -> None:
    made = provider(server, FakeClock())
    assert made.token() == "t-0"
    assert made.extensions() == {"x": "y"}
    authorization, form = server.asked[0]
    assert authorization == "Basic " + base64.b64encode(b"my id:hunter2:&").decode()
    assert form == {"grant_type": "client_credentials", "scope": "a b"}


def test_id_and_secret_are_url_encoded_where_asked(server: TokenServer) -> None:
    provider(server, FakeClock(), url_encode=True).token()
    expected = base64.b64encode(b"my+id:hunter2%3A%26").decode()
    assert server.asked[0][0] == "Basic " + expected


def test_a_token_is_kept_for_most_of_its_life(server: TokenServer) -> None:
    clock = FakeClock()
    made = provider(server, clock)
    made.token()
    clock.advance(79)
    assert made.token() == "t-0"
    assert len(server.asked) == 1
    server.answer = b'{"access_token": "t-1", "expires_in": 100}'
    clock.advance(2)
    assert made.token() == "t-0", "renewed in the background"
    wait_until(lambda: made.token() == "t-1", AMPLE_S, "the new token")


def test_a_token_that_cannot_be_renewed_is_used_until_it_expires(server: TokenServer) -> None:
    clock = FakeClock()
    made = provider(server, clock)
    made.token()
    server.status = 503
    clock.advance(85)
    assert made.token() == "t-0"
    wait_until(lambda: len(server.asked) == 2, AMPLE_S, "the attempt to renew it")
    assert made.token() == "t-0"
    clock.advance(15)
    with pytest.raises(BrokerUnavailable):
        made.token()


def test_who_cannot_wait_gets_the_token_later(server: TokenServer) -> None:
    server.gate.clear()
    made = provider(server, FakeClock())
    assert made.without_waiting() is None
    wait_until(lambda: len(server.asked) == 1, AMPLE_S, "the request in the background")
    assert made.without_waiting() is None
    server.gate.set()
    wait_until(lambda: made.without_waiting() is not None, AMPLE_S, "the token")
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_the_secret_does_not_follow_a_redirect(server: TokenServer, status: int) -> None:
    server.status, server.location = status, server.url
    with pytest.raises(ConfigError, match=f"HTTP {status}.* redirects"):
        provider(server, FakeClock()).token()
    assert len(server.asked) == 1


def test_the_end_of_a_token_may_stand_in_the_token(server: TokenServer) -> None:
    clock = FakeClock(now_ms=1_000_000)
    claims = base64.urlsafe_b64encode(b'{"exp": 1050}').rstrip(b"=").decode()
    server.answer = json.dumps({"access_token": f"h.{claims}.s"}).encode()
    assert provider(server, clock).current().expires_ms == 1_050_000


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (401, b'{"error": "hunter2"}', ConfigError),
        (503, b"", BrokerUnavailable),
        (429, b"", BrokerUnavailable),
        (200, b" " * (1 << 21), BrokerUnavailable),
        (200, b"not json hunter2", BrokerUnavailable),
        (200, b'{"token": "hunter2"}', ConfigError),
        (200, b'["hunter2"]', ConfigError),
    ],
)
def test_a_refusal_is_final_and_an_outage_is_not(
    server: TokenServer, status: int, answer: bytes, kind: type[Exception]
) -> None:
    server.status, server.answer = status, answer
    with pytest.raises(kind) as caught:
        provider(server, FakeClock()).token()
    assert server.url in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_server_that_is_away_may_come_back(server: TokenServer) -> None:
    made = provider(server, FakeClock())
    server.shutdown()
    server.server_close()
    with pytest.raises(BrokerUnavailable):
        made.token()


def test_nothing_prints_the_secret(server: TokenServer) -> None:
    made = provider(server, FakeClock())
    assert "hunter2" not in repr(ClientCredentials("i", "hunter2"))
    assert "t-0" not in repr(made.current())


def test_a_file_is_read_again_when_its_token_ages(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "token"
    path.write_text("opaque-0\n")
    made = FileTokenProvider(path, {}, clock)
    assert made.token() == "opaque-0"
    path.write_text("opaque-1\n")
    assert made.token() == "opaque-0"
    clock.advance(301)
    assert made.token() == "opaque-1"
    path.unlink()
    clock.advance(301)
    with pytest.raises(ConfigError, match="cannot be read"):
        made.token()
