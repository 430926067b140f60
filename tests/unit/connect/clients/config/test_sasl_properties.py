"""SASL from Java's properties, for librdkafka and for kafka-python's mechanisms."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from kafka.net.sasl import SASL_MECHANISMS

from connect.clients import warn_once
from connect.clients.config.properties import librdkafka_config
from connect.clients.config.sasl_properties import (
    is_beyond_librdkafka,
    librdkafka_sasl,
    sasl_mechanism,
    wire_sasl,
)
from connect.clients.security.kerberos import KerberosLogin
from connect.clients.security.oauth import FileTokenProvider, UnsecuredTokenProvider
from connect.clients.security.own_mechanisms import LOGIN_KEY
from connect.clients.security.scram import DelegationTokenId, install
from connect.errors import ConfigError

PLAIN = 'a.PlainLoginModule required username="u" password="hunter2";'
SCRAM = 'a.ScramLoginModule required username="u" password="hunter2";'
URL = {"sasl.oauthbearer.token.endpoint.url": "https://localhost:1/token"}


@pytest.fixture(autouse=True)
def _fresh_notices() -> None:
    install()
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


@pytest.mark.parametrize(("option", "is_token"), [("true", True), ("false", False)])
def test_a_delegation_token_logs_in_by_the_proxy(option: str, is_token: bool) -> None:
    """librdkafka cannot say in its first SCRAM message that the user is a token."""
    props = {
        "security.protocol": "SASL_PLAINTEXT",
        "bootstrap.servers": "broker:9092",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": SCRAM.replace(";", f' tokenauth="{option}";'),
    }
    assert is_beyond_librdkafka(props) is is_token
    assert ("sasl.password" in librdkafka_config(props, "consumer")) is not is_token
    sasl = wire_sasl(props)
    assert isinstance(sasl["sasl_plain_username"], DelegationTokenId) is is_token
    mechanism = SASL_MECHANISMS["SCRAM-SHA-256"](sasl_mechanism="SCRAM-SHA-256", **sasl)
    assert mechanism.auth_bytes().endswith(b",tokenauth=true") is is_token


def test_kerberos_is_the_default_as_in_java() -> None:
    assert sasl_mechanism({}) == "GSSAPI"


@pytest.mark.parametrize(
    ("options", "login"),
    [
        (
            'useKeyTab=true storeKey=true keyTab="/k" principal="mm/host@R"',
            KerberosLogin("kafka", "mm/host@R", "/k"),
        ),
        ('keyTab="/k" principal="mm@R"', KerberosLogin("kafka", "mm@R", "/k")),
        ("useTicketCache=true", KerberosLogin("kafka")),
        (
            'useTicketCache=true ticketCache="/tmp/cc" principal="mm@R"',
            KerberosLogin("kafka", "mm@R", None, "/tmp/cc"),
        ),
        ('useKeyTab=false keyTab="/k"', KerberosLogin("kafka")),
    ],
)
def test_a_kerberos_login(options: str, login: KerberosLogin) -> None:
    by_property = kerberos(options, sasl_kerberos_service_name="kafka")
    assert wire_sasl(by_property) == {LOGIN_KEY: login}
    assert wire_sasl(kerberos(options + ' serviceName="kafka"')) == {LOGIN_KEY: login}


def test_librdkafka_gets_no_kerberos_property() -> None:
    """Its own GSSAPI runs a shell with the principal and the keytab's path."""
    props = kerberos('keyTab="/k" principal="$(touch /tmp/x)"', sasl_kerberos_service_name="kafka")
    props |= {
        "security.protocol": "SASL_PLAINTEXT",
        "bootstrap.servers": "broker:9092",
        "sasl.kerberos.kinit.cmd": "touch /tmp/x",
        "sasl.kerberos.min.time.before.relogin": "1000",
    }
    assert is_beyond_librdkafka(props)
    config = librdkafka_config(props, "admin")
    assert not [key for key in config if "sasl" in key or key == "bootstrap.servers"]
    assert "touch" not in str(config)


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        ({}, False),
        ({"sasl.mechanism": "GSSAPI"}, False),
        ({"security.protocol": "SASL_SSL"}, True),
        ({"security.protocol": " sasl_plaintext ", "sasl.mechanism": "GSSAPI"}, True),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, False),
    ],
)
def test_the_mechanisms_that_librdkafka_lacks(props: dict[str, str], expected: bool) -> None:
    assert is_beyond_librdkafka(props) is expected


def test_a_jaas_file_in_kafka_opts_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "client jaas.conf"
    path.write_text(
        """// Of the machine's operators.
        KafkaServer { a.Krb5LoginModule required keyTab="/other" principal="kafka@R"; };
        KafkaClient {
            com.sun.security.auth.module.Krb5LoginModule required
            useKeyTab=true keyTab="/k" principal="mm/host@R" serviceName="kafka";
        };"""
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g '-Djava.security.auth.login.config={path}'")
    assert wire_sasl({}) == {LOGIN_KEY: KerberosLogin("kafka", "mm/host@R", "/k")}

    own = kerberos('keyTab="/own" principal="o@R" serviceName="kafka"')
    assert wire_sasl(own) == {LOGIN_KEY: KerberosLogin("kafka", "o@R", "/own")}

    with pytest.raises(ConfigError, match="needs a PlainLoginModule, not a Krb5LoginModule"):
        wire_sasl({"sasl.mechanism": "PLAIN"})

    path.write_text("KafkaServer { a.Krb5LoginModule required; };")
    with pytest.raises(ConfigError, match=r"it has no entry KafkaClient \{ \.\.\. \};"):
        wire_sasl({})


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
        (kerberos('keyTab="/k"'), "sasl.kerberos.service.name", "Missing required"),
        (
            kerberos('serviceName="a" useKeyTab=true principal="p"'),
            "sasl.jaas.config",
            "useKeyTab=true needs the option keyTab",
        ),
        (
            kerberos('serviceName="a" keyTab="/k"'),
            "sasl.jaas.config",
            "useKeyTab=true needs the option principal",
        ),
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
            oauth() | URL | {"sasl.oauthbearer.jwt.retriever.class": "x.MagicJwtRetriever"},
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
    by_librdkafka = props.get("sasl.mechanism") is not None
    for read in (librdkafka_sasl, wire_sasl) if by_librdkafka else (wire_sasl,):
        with pytest.raises(ConfigError) as caught:
            read(props)
        assert caught.value.key == key
        assert key in str(caught.value)
        assert reason in str(caught.value)
        assert "hunter2" not in str(caught.value)
