"""SASL from Java's properties, for librdkafka and for kafka-python's mechanisms."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from kafka.net.sasl import SASL_MECHANISMS

from connect.clients import warn_once
from connect.clients.config.sasl_properties import librdkafka_sasl, sasl_mechanism, wire_sasl
from connect.clients.security.jaas import JAAS_KEY
from connect.clients.security.oauth import FileTokenProvider, UnsecuredTokenProvider
from connect.errors import ConfigError

PLAIN = 'a.PlainLoginModule required username="u" password="hunter2";'
SCRAM = 'a.ScramLoginModule required username="u" password="hunter2";'
URL = {"sasl.oauthbearer.token.endpoint.url": "https://localhost:1/token"}


@pytest.fixture(autouse=True)
def _fresh_notices() -> None:
    warn_once._seen.clear()


def oauth(options: str = "", **more: str) -> dict[str, str]:
    jaas = f"a.OAuthBearerLoginModule required {options};"
    named = {key.replace("_", "."): value for key, value in more.items()}
    return {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas, **named}


def kerberos(options: str, **more: str) -> dict[str, str]:
    named = {key.replace("_", "."): value for key, value in more.items()}
    return {"sasl.jaas.config": f"a.Krb5LoginModule required {options};", **named}


@pytest.mark.parametrize(
    ("mechanism", "jaas"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_user_and_password_reach_both_clients(mechanism: str, jaas: str) -> None:
    props = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    assert librdkafka_sasl(props) == {
        "sasl.mechanism": mechanism,
        "sasl.username": "u",
        "sasl.password": "hunter2",
    }
    assert wire_sasl(props) == {"sasl_plain_username": "u", "sasl_plain_password": "hunter2"}


def test_kerberos_is_the_default_as_in_java() -> None:
    assert sasl_mechanism({}) == "GSSAPI"
    props = kerberos("useTicketCache=true", sasl_kerberos_service_name="kafka")
    assert wire_sasl(props) == {"sasl_kerberos_service_name": "kafka"}


@pytest.mark.parametrize(
    ("options", "kinit"),
    [
        ("useTicketCache=true", ""),
        ('useKeyTab=true keyTab="/k" principal="mm@R"', ""),
        ('keyTab="/k" principal="mm; touch /tmp/injected; #"', ""),
        ('keyTab="/k$(touch /tmp/injected)"', "touch /tmp/injected; kinit"),
    ],
)
def test_nothing_of_a_kerberos_login_reaches_a_shell(options: str, kinit: str) -> None:
    props = kerberos(f'serviceName="kafka" {options}', sasl_kerberos_kinit_cmd=kinit)
    assert librdkafka_sasl(props) == {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.kinit.cmd": "",
    }


def test_a_keytab_without_effect_is_named(caplog: pytest.LogCaptureFixture) -> None:
    wire_sasl(kerberos('serviceName="kafka" keyTab="/k"'))
    assert f"keyTab in {JAAS_KEY}" in caplog.text
    assert "KRB5_CLIENT_KTNAME" in caplog.text


def test_client_credentials_come_from_properties_or_options() -> None:
    from_options = librdkafka_sasl(
        oauth('clientId="c" clientSecret="hunter2" scope="s" extension_a="1" extension_b="2"') | URL
    )
    assert from_options == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": URL["sasl.oauthbearer.token.endpoint.url"],
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.client.secret": "hunter2",
        "sasl.oauthbearer.scope": "s",
        "sasl.oauthbearer.extensions": "a=1,b=2",
    }
    from_properties = librdkafka_sasl(
        {
            "sasl.mechanism": "OAUTHBEARER",
            **URL,
            "sasl.oauthbearer.client.credentials.client.id": "c",
            "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
            "sasl.oauthbearer.scope": "s",
        }
    )
    assert from_properties == {
        key: value for key, value in from_options.items() if not key.endswith("extensions")
    }


def test_a_token_file_serves_both_clients(tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4_102_444_800}).encode()).decode()
    token = f"h.{claims.rstrip('=')}.s"
    path = tmp_path / "token"
    path.write_text(token + "\n")
    props = oauth() | {"sasl.oauthbearer.token.endpoint.url": f"file://{path}"}
    assert librdkafka_sasl(props)["oauth_cb"]("") == (token, 4_102_444_800.0, "", {})
    provider: Any = wire_sasl(props)["sasl_oauth_token_provider"]
    assert isinstance(provider, FileTokenProvider)
    assert provider.token() == token


def test_unsecured_tokens_are_for_tests() -> None:
    props = oauth('unsecuredLoginStringClaim_sub="u"')
    assert librdkafka_sasl(props)["sasl.oauthbearer.config"] == "principal=u"
    provider: Any = wire_sasl(props)["sasl_oauth_token_provider"]
    assert isinstance(provider, UnsecuredTokenProvider)
    header, claims, signature = provider.token().split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"] == "u"
    assert signature == ""


@pytest.mark.parametrize(
    "props",
    [
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
        {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM},
        oauth('unsecuredLoginStringClaim_sub="u"'),
    ],
)
def test_kafka_pythons_mechanisms_take_the_arguments(props: dict[str, str]) -> None:
    mechanism = sasl_mechanism(props)
    made = SASL_MECHANISMS[mechanism](sasl_mechanism=mechanism, **wire_sasl(props))
    assert made.auth_bytes()


@pytest.mark.parametrize(
    ("props", "key", "reason"),
    [
        ({"sasl.mechanism": "NTLM"}, "sasl.mechanism", "must be one of PLAIN"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.jaas.config", "needs a PlainLoginModule"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM},
            "sasl.jaas.config",
            "needs a PlainLoginModule, not a ScramLoginModule",
        ),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "PlainLoginModule required username=u;",
            },
            "sasl.jaas.config",
            "needs the option password",
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": SCRAM.replace(";", " tokenauth=true;"),
            },
            "sasl.jaas.config",
            "delegation tokens",
        ),
        (kerberos('keyTab="/k"'), "sasl.kerberos.service.name", "Missing required"),
        (
            kerberos('serviceName="a"', sasl_kerberos_service_name="b"),
            "sasl.kerberos.service.name",
            "must be equal",
        ),
        (oauth(), "sasl.oauthbearer.token.endpoint.url", "Missing required"),
        (
            oauth() | {"sasl.oauthbearer.token.endpoint.url": "ftp://x/"},
            "sasl.oauthbearer.token.endpoint.url",
            "must be an http:, https: or file: URL",
        ),
        (oauth() | URL, "sasl.oauthbearer.client.credentials.client.id", "Missing required"),
        (
            oauth('clientId="c"') | URL,
            "sasl.oauthbearer.client.credentials.client.secret",
            "Missing required",
        ),
        (
            oauth() | URL | {"sasl.oauthbearer.jwt.retriever.class": "x.JwtBearerJwtRetriever"},
            "sasl.oauthbearer.jwt.retriever.class",
            "must be",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN, "sasl.login.class": "x.Y"},
            "sasl.login.class",
            "Java classes cannot be used here",
        ),
    ],
)
def test_what_is_wrong_is_named_without_secrets(
    props: dict[str, str], key: str, reason: str
) -> None:
    for read in (librdkafka_sasl, wire_sasl):
        with pytest.raises(ConfigError) as caught:
            read(props)
        assert caught.value.key == key
        assert key in str(caught.value)
        assert reason in str(caught.value)
        assert "hunter2" not in str(caught.value)
