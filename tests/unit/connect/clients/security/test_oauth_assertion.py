"""Tokens for assertions: what is signed, how it is sent, and what is said when it cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from connect.clients.config.sasl_properties import librdkafka_sasl, wire_sasl
from connect.clients.security.oauth import TokenProvider
from connect.clients.security.oauth_assertion import AssertionProvider
from connect.errors import ConfigError
from tests.support.security.token_server import TokenServer, running_token_server

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
PASSPHRASE = "open-sesame"
RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, passphrase: str = "") -> bytes:
    lock: KeySerializationEncryption = NoEncryption()
    if passphrase:
        lock = BestAvailableEncryption(passphrase.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with running_token_server() as running:
        yield running


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    path.write_bytes(pem(RSA))
    return path


def properties(url: str, **assertion: str) -> dict[str, str]:
    """Names with underscores for dots, below `sasl.oauthbearer.assertion.`."""
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.jwt.retriever.class": RETRIEVER,
        **{
            f"sasl.oauthbearer.assertion.{key.replace('_', '.')}": value
            for key, value in assertion.items()
        },
    }


def provider(props: dict[str, str]) -> TokenProvider:
    found = wire_sasl(props)["sasl_oauth_token_provider"]
    assert isinstance(found, TokenProvider)
    return found


def signed(key_file: Path, **more: str) -> dict[str, str]:
    claims = {"claim_iss": "mirror", "claim_sub": "svc", "claim_aud": "idp"}
    return {"private_key_file": str(key_file), **claims, **more}


def decoded(server: TokenServer, key: Any, algorithm: str) -> dict[str, Any]:
    assertion = server.asked[-1][1]["assertion"]
    claims: dict[str, Any] = jwt.decode(
        assertion, key.public_key(), algorithms=[algorithm], audience="idp"
    )
    return claims


def test_an_assertion_is_signed_and_is_the_grant(server: TokenServer, key_file: Path) -> None:
    props = {
        **properties(server.url, **signed(key_file)),
        "sasl.oauthbearer.scope": " read ",
    }
    assert provider(props).token() == "t-0"
    authorization, form = server.asked[0]
    assert authorization is None
    assert set(form) == {"grant_type", "assertion", "scope"}
    assert (form["grant_type"], form["scope"]) == (GRANT, "read")
    claims = decoded(server, RSA, "RS256")
    assert (claims["iss"], claims["sub"]) == ("mirror", "svc")
    assert claims["exp"] - claims["iat"] == 300
    assert claims["iat"] - claims["nbf"] == 60
    assert "jti" not in claims
    header = jwt.get_unverified_header(form["assertion"])
    assert header == {"alg": "RS256", "typ": "JWT"}


def test_an_elliptic_key_with_a_passphrase(server: TokenServer, tmp_path: Path) -> None:
    path = tmp_path / "ec.pem"
    path.write_bytes(pem(EC, PASSPHRASE))
    more = {"algorithm": "es256", "private_key_passphrase": PASSPHRASE}
    made = provider(properties(server.url, **signed(path, **more)))
    assert made.token() == "t-0"
    decoded(server, EC, "ES256")


def test_claims_of_a_template_win_but_not_over_the_times(
    server: TokenServer, key_file: Path, tmp_path: Path
) -> None:
    template = tmp_path / "template.json"
    payload = {"sub": "of the template", "tenant": 7, "exp": 1}
    template.write_text(json.dumps({"header": {"kid": "k1"}, "payload": payload}))
    more = {
        "template_file": str(template),
        "claim_jti_include": "true",
        "claim_exp_seconds": "90",
        "claim_nbf_seconds": "0",
    }
    provider(properties(server.url, **signed(key_file, **more))).token()
    claims = decoded(server, RSA, "RS256")
    assert (claims["sub"], claims["tenant"], claims["iss"]) == ("of the template", 7, "mirror")
    assert claims["exp"] - claims["iat"] == 90
    assert claims["nbf"] == claims["iat"]
    assert claims["jti"]
    assert jwt.get_unverified_header(server.asked[0][1]["assertion"])["kid"] == "k1"


def test_a_file_with_an_assertion_is_read_for_each_token(
    server: TokenServer, tmp_path: Path
) -> None:
    path = tmp_path / "assertion.jwt"
    path.write_text("first\n")
    server.answer = b'{"access_token": "t", "expires_in": 0}'
    made = provider(properties(server.url, file=str(path)))
    made.token()
    path.write_text("second\n")
    made.token()
    assert [form["assertion"] for _, form in server.asked] == ["first", "second"]


def test_an_assertion_in_place_of_the_clients_secret(server: TokenServer, key_file: Path) -> None:
    """As with Java's default retriever, when the issuer or a file is configured."""
    props = properties(server.url, **signed(key_file))
    del props["sasl.oauthbearer.jwt.retriever.class"]
    props["sasl.oauthbearer.client.credentials.client.id"] = "mirror"
    provider(props).token()
    _, form = server.asked[0]
    assert form.keys() == {"grant_type", "client_assertion_type", "client_assertion", "client_id"}
    assert form["grant_type"] == "client_credentials"
    assert form["client_assertion_type"].endswith(":client-assertion-type:jwt-bearer")


def test_librdkafka_gets_these_tokens_through_a_callback(
    server: TokenServer, key_file: Path
) -> None:
    config = librdkafka_sasl(properties(server.url, **signed(key_file)))
    assert set(config) == {"sasl.mechanism", "oauth_cb"}
    assert config["oauth_cb"]("")[0] == "t-0"


def test_a_refused_assertion_says_what_to_check(server: TokenServer, key_file: Path) -> None:
    server.status = 400
    with pytest.raises(ConfigError) as caught:
        provider(properties(server.url, **signed(key_file))).token()
    assert "HTTP 400: it refused the assertion; check its issuer" in str(caught.value)
    assert server.asked[0][1]["assertion"] not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"private_key_file": ""}, 'Missing required configuration "sasl.oauthbearer.assertion.p'),
        ({"private_key_file": "/nowhere/key.pem"}, "cannot be read: No such file"),
        ({"algorithm": "ES256"}, "needs an EC key of the curve P-256"),
        ({"algorithm": "HS256"}, "sasl.oauthbearer.assertion.algorithm"),
        ({"template_file": "{key}"}, 'must be JSON with objects "header" and "payload"'),
    ],
)
def test_what_is_wrong_is_named_before_the_start(
    key_file: Path, change: dict[str, str], word: str
) -> None:
    changed = {name: value.format(key=key_file) for name, value in change.items()}
    with pytest.raises(ConfigError) as caught:
        wire_sasl(properties("http://127.0.0.1:1/", **{**signed(key_file), **changed}))
    assert word in str(caught.value)


@pytest.mark.parametrize("passphrase", ["", "guessed-wrong"])
def test_a_wrong_passphrase_is_named_and_not_shown(tmp_path: Path, passphrase: str) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(pem(RSA, PASSPHRASE))
    given = signed(path, **({"private_key_passphrase": passphrase} if passphrase else {}))
    with pytest.raises(ConfigError, match="passphrase is wrong or missing") as caught:
        wire_sasl(properties("http://127.0.0.1:1/", **given))
    assert "guessed" not in str(caught.value)


def test_nothing_of_it_prints_a_secret(key_file: Path) -> None:
    made = provider(
        properties("http://127.0.0.1:1/", **signed(key_file, private_key_passphrase=PASSPHRASE))
    )
    assert isinstance(made, AssertionProvider)
    assert PASSPHRASE not in repr(made._assertion)


def test_the_retriever_needs_an_endpoint(key_file: Path) -> None:
    props = properties("", **signed(key_file))
    props["sasl.jaas.config"] = "a.OAuthBearerLoginModule required;"
    with pytest.raises(ConfigError, match="JwtBearerJwtRetriever sends assertions there"):
        wire_sasl(props)
