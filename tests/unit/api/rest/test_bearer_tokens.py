"""Bearer tokens of an OAuth server: whose are accepted, and with which role."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from api.rest.bearer_tokens import BearerTokens, token_rules
from api.rest.roles import Role
from connect.errors import ConfigError
from tests.support.fake_clock import FakeClock
from tests.support.rest import call
from tests.support.security.user_tokens import AUDIENCE, ISSUER, Issuer
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import StartServer

jwt: Any = pytest.importorskip("jwt", reason="PyJWT is not installed: make install-test")


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as made:
        yield made


def tokens(issuer: Issuer, clock: FakeClock | None = None, **props: str) -> BearerTokens:
    rules = token_rules({**issuer.props, **props})
    assert rules is not None
    return BearerTokens(rules, clock or FakeClock())


@pytest.mark.parametrize(
    ("roles", "role"),
    [
        (("connect-viewer",), Role.VIEWER),
        (("connect-viewer", "connect-operator", "else"), Role.OPERATOR),
        (("connect-admin",), Role.ADMIN),
        ("connect-viewer connect-admin", Role.ADMIN),
        (("else",), None),
        ({"connect-admin": True}, None),
        ((), None),
    ],
)
def test_the_highest_role_of_the_claim_counts(
    issuer: Issuer, roles: object, role: Role | None
) -> None:
    assert tokens(issuer).user(issuer.token(roles)) == ("anna", role)


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "else"},
        {"aud": None},
        {"exp": time.time() - 3600},
        {"exp": None},
        {"nbf": time.time() + 3600},
        {"sub": None},
    ],
    ids=lambda claims: "-".join(claims),
)
def test_a_token_with_wrong_claims_is_refused(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert tokens(issuer).user(issuer.token(**claims)) is None


def test_only_signatures_of_the_served_keys_count(issuer: Issuer) -> None:
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": time.time() + 300}
    others = rsa.generate_private_key(65537, 2048)
    public = str(issuer.keys[0]["n"])
    by_ec = jwt.encode(good, issuer.ec, "ES256", headers={"kid": "e"})
    checked = tokens(issuer)
    assert checked.user(by_ec) == ("anna", None)
    for forged in (
        jwt.encode(good, others, "RS256", headers={"kid": "r"}),
        jwt.encode(good, "", "none", headers={"kid": "r"}),
        jwt.encode(good, public, "HS256", headers={"kid": "r"}),
        jwt.encode(good, issuer.ec, "ES256", headers={"kid": "r"}),
        jwt.encode(good, issuer.rsa, "RS256", headers={"kid": "unknown"}),
        "a.b.c",
        "",
        f"{by_ec}x",
        "x" * 100_000,
    ):
        assert checked.user(forged) is None


def test_a_new_key_is_fetched_and_unknown_ones_do_not_flood_the_server(issuer: Issuer) -> None:
    clock = FakeClock()
    checked = tokens(issuer, clock)
    assert checked.user(issuer.token()) is not None
    for number in range(20):
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": time.time() + 300}
        forged = jwt.encode(claims, issuer.rsa, "RS256", headers={"kid": str(number)})
        assert checked.user(forged) is None
    assert issuer.asked == 1
    issuer.keys[0]["kid"] = "new"
    clock.advance(11)
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": time.time() + 300}
    renewed = jwt.encode(claims, issuer.rsa, "RS256", headers={"kid": "new"})
    assert checked.user(renewed) == ("anna", None)
    assert issuer.asked == 2


def test_redirects_are_not_followed(issuer: Issuer) -> None:
    issuer.redirect = issuer.props["rest.oauthbearer.jwks.endpoint.url"] + "/other"
    assert tokens(issuer).user(issuer.token()) is None
    assert issuer.asked == 1


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"rest.oauthbearer.jwks.endpoint.url": "http://login.example/keys"}, "https"),
        ({"rest.oauthbearer.jwks.endpoint.url": "file:///etc/passwd"}, "https"),
        ({"rest.oauthbearer.expected.issuer": ""}, "expected.issuer is needed"),
        ({"rest.oauthbearer.expected.audience": ""}, "expected.audience is needed"),
    ],
)
def test_rules_that_would_accept_others_tokens_are_refused(
    issuer: Issuer, changed: dict[str, str], word: str
) -> None:
    with pytest.raises(ConfigError, match=word):
        token_rules({**issuer.props, **changed})


def test_a_request_has_the_role_of_its_token(
    issuer: Issuer,
    herder: InMemoryHerder,
    start_server: StartServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    herder.configs["c"] = {"name": "c"}
    url = start_server(herder, issuer.props)

    def status(token: str, method: str, path: str) -> int:
        return call(url, method, path, None, {"Authorization": f"Bearer {token}"}).status

    operator = issuer.token(("connect-operator",))
    with caplog.at_level("DEBUG"):
        assert status(operator, "POST", "/connectors/c/restart") == 204
        assert status(operator, "DELETE", "/connectors/c") == 403
        assert status(issuer.token(()), "GET", "/connectors") == 403
        assert status(issuer.token(aud="else"), "GET", "/connectors") == 401
    refused = call(url, "GET", "/connectors")
    assert refused.status == 401
    assert refused.headers["www-authenticate"] == 'Bearer realm="Kafka Connect"'
    assert operator.rpartition(".")[2] not in caplog.text
