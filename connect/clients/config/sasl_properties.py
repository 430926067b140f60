"""Convert Java's `sasl.*` properties for librdkafka and for kafka-python's SASL mechanisms.

| mechanism | login module | options |
|---|---|---|
| PLAIN | PlainLoginModule | username, password |
| SCRAM-SHA-256, SCRAM-SHA-512 | ScramLoginModule | username, password, tokenauth |
| GSSAPI | Krb5LoginModule | principal, keyTab, useKeyTab, ticketCache, serviceName |
| OAUTHBEARER | OAuthBearerLoginModule | clientId, clientSecret, scope, extension_X, ssl.X |
| AWS_MSK_IAM | IAMLoginModule | awsProfileName |

Without `sasl.jaas.config`, the login module is that of the entry `KafkaClient` in the JAAS file
that `-Djava.security.auth.login.config` in KAFKA_OPTS names, as in Java.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connect.clients.security.jaas import JAAS_KEY, LoginModule, parse_jaas
from connect.clients.security.jaas_file import LOGIN_CONFIG, read_jaas_entry
from connect.clients.security.kerberos import LOGIN_KEY, KerberosLogin
from connect.clients.security.key_stores import read_trusted_certificates
from connect.clients.security.msk_iam import MskIamLogin
from connect.clients.security.oauth import (
    ClientCredentials,
    ClientCredentialsProvider,
    FileTokenProvider,
    UnsecuredTokenProvider,
)
from connect.clients.security.tls import ssl_context
from connect.config.java_options import system_property
from connect.config.types import ConfigType, invalid_value, parse_value
from connect.errors import ConfigError

__all__ = ["is_beyond_librdkafka", "librdkafka_sasl", "sasl_mechanism", "wire_sasl"]

_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "GSSAPI": "Krb5LoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "AWS_MSK_IAM": "IAMLoginModule",
}
# librdkafka has GSSAPI only if it is built with Cyrus SASL, which confluent-kafka's wheels are not.
_BEYOND_LIBRDKAFKA = frozenset({"GSSAPI", "AWS_MSK_IAM"})
# Users of MSK have this handler in their properties, and it says no more than the mechanism.
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_JAAS_ENTRY = "KafkaClient"
_OAUTH = "sasl.oauthbearer."
_TOKEN_URL = _OAUTH + "token.endpoint.url"
_EXTENSION = "extension_"
_UNSECURED_CLAIM = "unsecuredLoginStringClaim_"


def sasl_mechanism(props: Mapping[str, str]) -> str:
    """Return the SASL mechanism, by default GSSAPI as in Java. Raises ConfigError for unknown
    ones.
    """
    mechanism = props.get("sasl.mechanism", "").strip() or "GSSAPI"
    if mechanism not in _MODULES:
        raise invalid_value("sasl.mechanism", mechanism, f"must be one of {', '.join(_MODULES)}")
    return mechanism


def is_beyond_librdkafka(props: Mapping[str, str]) -> bool:
    """Return whether librdkafka lacks the SASL mechanism of these Java properties.

    Its clients then need a `SaslProxy`. Raises ConfigError for unknown mechanisms.
    """
    protocol = props.get("security.protocol", "").strip().upper()
    return protocol.startswith("SASL") and sasl_mechanism(props) in _BEYOND_LIBRDKAFKA


def librdkafka_sasl(props: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's SASL properties for a mechanism that it has. Raises ConfigError for
    incomplete ones.
    """
    mechanism = sasl_mechanism(props)
    module = _login_module(props, mechanism)
    config: dict[str, Any] = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return config | _librdkafka_oauth(props, module)
    username, password = _credentials(module)
    return config | {"sasl.username": username, "sasl.password": password}


def wire_sasl(props: Mapping[str, str]) -> dict[str, object]:
    """Return the arguments of kafka-python's SASL mechanism. Raises ConfigError for incomplete
    ones.
    """
    mechanism = sasl_mechanism(props)
    module = _login_module(props, mechanism)
    if mechanism == "GSSAPI":
        return {LOGIN_KEY: _kerberos_login(props, module)}
    if mechanism == "AWS_MSK_IAM":
        return {LOGIN_KEY: _msk_iam_login(props, module)}
    if mechanism == "OAUTHBEARER":
        return {"sasl_oauth_token_provider": _token_provider(props, module)}
    username, password = _credentials(module)
    return {"sasl_plain_username": username, "sasl_plain_password": password}


def _login_module(props: Mapping[str, str], mechanism: str) -> LoginModule:
    for key in ("sasl.client.callback.handler.class", "sasl.login.class"):
        if props.get(key) and (mechanism, props[key]) != ("AWS_MSK_IAM", _MSK_HANDLER):
            raise invalid_value(key, props[key], "Java classes cannot be used here; remove the key")
    text = props.get(JAAS_KEY)
    expected = _MODULES[mechanism]
    location = None if text else system_property(LOGIN_CONFIG, os.environ)
    if not text and not location:
        if mechanism == "GSSAPI" or (mechanism == "OAUTHBEARER" and props.get(_TOKEN_URL)):
            return LoginModule(expected, {})
        raise ConfigError(
            f'Missing required configuration "{JAAS_KEY}": sasl.mechanism {mechanism} needs '
            f"a {expected}",
            key=JAAS_KEY,
        )
    module = parse_jaas(text) if text else read_jaas_entry(location or "", _JAAS_ENTRY)
    if module.name != expected:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {JAAS_KEY}: sasl.mechanism {mechanism} "
            f"needs a {expected}, not a {module.name}",
            key=JAAS_KEY,
        )
    return module


def _option(module: LoginModule, name: str) -> str | None:
    return module.options.get(name)


def _credentials(module: LoginModule) -> tuple[str, str]:
    values = []
    for name in ("username", "password"):
        value = _option(module, name)
        if value is None:
            raise ConfigError(
                f"Invalid value [hidden] for configuration {JAAS_KEY}: "
                f"{module.name} needs the option {name}",
                key=JAAS_KEY,
            )
        values.append(value)
    if _option(module, "tokenauth") == "true":
        raise ConfigError(
            f"Invalid value [hidden] for configuration {JAAS_KEY}: delegation tokens "
            "(tokenauth=true) are not supported; use a SCRAM user",
            key=JAAS_KEY,
        )
    return values[0], values[1]


def _service_name(props: Mapping[str, str], module: LoginModule) -> str:
    configured = props.get("sasl.kerberos.service.name")
    option = _option(module, "serviceName")
    if configured and option and configured != option:
        raise invalid_value(
            "sasl.kerberos.service.name",
            configured,
            f"the serviceName of {JAAS_KEY} is {option}; they must be equal",
        )
    name = configured or option
    if not name:
        raise ConfigError(
            'Missing required configuration "sasl.kerberos.service.name": GSSAPI needs the '
            "brokers' principal, usually kafka",
            key="sasl.kerberos.service.name",
        )
    return name


def _kerberos_login(props: Mapping[str, str], module: LoginModule) -> KerberosLogin:
    service = _service_name(props, module)
    keytab, principal = _option(module, "keyTab"), _option(module, "principal")
    use = (_option(module, "useKeyTab") or ("true" if keytab else "false")).lower()
    if use == "true":
        if not keytab or not principal:
            missing = "principal" if keytab else "keyTab"
            raise ConfigError(
                f"Invalid value [hidden] for configuration {JAAS_KEY}: useKeyTab=true needs the "
                f"option {missing}",
                key=JAAS_KEY,
            )
        return KerberosLogin(service, principal, keytab)
    return KerberosLogin(service, principal, None, _option(module, "ticketCache"))


def _msk_iam_login(props: Mapping[str, str], module: LoginModule) -> MskIamLogin:
    if props.get("security.protocol", "").strip().upper() != "SASL_SSL":
        raise ConfigError(
            "sasl.mechanism AWS_MSK_IAM needs security.protocol SASL_SSL", key="security.protocol"
        )
    for name in module.options:
        if name not in ("awsProfileName", "awsDebugCreds"):
            raise ConfigError(
                f"Invalid value [hidden] for configuration {JAAS_KEY}: the option {name} is not "
                "supported; name a profile with awsProfileName, which may have a role_arn",
                key=JAAS_KEY,
            )
    return MskIamLogin(_option(module, "awsProfileName"))


def _librdkafka_oauth(props: Mapping[str, str], module: LoginModule) -> dict[str, Any]:
    url = _token_url(props)
    if url is None:
        claims = _unsecured_claims(module)
        return {
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal={claims['sub']}",
        }
    if isinstance(url, Path):
        provider = FileTokenProvider(url, _extensions(module))
        return {"oauth_cb": _oauth_callback(provider)}
    credentials = _client_credentials(props, module, url)
    config: dict[str, Any] = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": credentials.client_id,
        "sasl.oauthbearer.client.secret": credentials.client_secret,
    }
    if credentials.scope:
        config["sasl.oauthbearer.scope"] = credentials.scope
    if extensions := _extensions(module):
        config["sasl.oauthbearer.extensions"] = ",".join(
            f"{name}={value}" for name, value in extensions.items()
        )
    if trusted := read_trusted_certificates(_module_tls(module)):
        config["https.ca.pem"] = trusted
    return config


def _oauth_callback(provider: FileTokenProvider) -> Any:
    """Return confluent-kafka's callback, which gives token, expiry in epoch seconds, principal and
    extensions.
    """

    def fetch(_config: str) -> tuple[str, float, str, dict[str, str]]:
        token = provider.current()
        return token.text, token.expires_ms / 1000, "", provider.extensions()

    return fetch


def _token_provider(props: Mapping[str, str], module: LoginModule) -> object:
    url = _token_url(props)
    extensions = _extensions(module)
    if url is None:
        return UnsecuredTokenProvider(_unsecured_claims(module), extensions)
    if isinstance(url, Path):
        return FileTokenProvider(url, extensions)
    return ClientCredentialsProvider(_client_credentials(props, module, url), extensions)


def _token_url(props: Mapping[str, str]) -> str | Path | None:
    """Return an http(s) URL, the path of a file: URL, or None for unsecured tokens."""
    retriever = props.get(_OAUTH + "jwt.retriever.class", "").rpartition(".")[2]
    if retriever not in (
        "",
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "FileJwtRetriever",
    ):
        raise invalid_value(
            _OAUTH + "jwt.retriever.class",
            retriever,
            "must be DefaultJwtRetriever, ClientCredentialsJwtRetriever or FileJwtRetriever",
        )
    url = props.get(_TOKEN_URL, "").strip()
    if not url:
        return None
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        return Path(urllib.parse.unquote(parts.path))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise invalid_value(_TOKEN_URL, url, "must be an http:, https: or file: URL")
    return url


def _client_credentials(
    props: Mapping[str, str], module: LoginModule, url: str
) -> ClientCredentials:
    def pick(key: str, option: str) -> str | None:
        return props.get(_OAUTH + key) or _option(module, option)

    client_id = pick("client.credentials.client.id", "clientId")
    secret = pick("client.credentials.client.secret", "clientSecret")
    if not client_id or secret is None:
        missing = (
            "client.credentials.client.secret" if client_id else "client.credentials.client.id"
        )
        raise ConfigError(
            f'Missing required configuration "{_OAUTH}{missing}" (or clientId and clientSecret in '
            f"{JAAS_KEY}): the request to {_TOKEN_URL} needs client credentials",
            key=_OAUTH + missing,
        )
    connect_ms = props.get("sasl.login.connect.timeout.ms") or "10000"
    timeout_ms = parse_value("sasl.login.connect.timeout.ms", connect_ms, ConfigType.INT)
    urlencode_key = _OAUTH + "header.urlencode"
    url_encode = parse_value(urlencode_key, props.get(urlencode_key, "false"), ConfigType.BOOLEAN)
    assert isinstance(timeout_ms, int)
    return ClientCredentials(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=pick("scope", "scope"),
        url_encode=bool(url_encode),
        connect_timeout_s=timeout_ms / 1000,
        ssl_context=ssl_context(_module_tls(module)) if url.startswith("https:") else None,
    )


def _module_tls(module: LoginModule) -> dict[str, str]:
    """Return the login module's own `ssl.*` options, which Java uses for the token endpoint."""
    return {key: value for key, value in module.options.items() if key.startswith("ssl.")}


def _extensions(module: LoginModule) -> dict[str, str]:
    return {
        name.removeprefix(_EXTENSION): value
        for name, value in module.options.items()
        if name.startswith(_EXTENSION)
    }


def _unsecured_claims(module: LoginModule) -> dict[str, str]:
    claims = {
        name.removeprefix(_UNSECURED_CLAIM): value
        for name, value in module.options.items()
        if name.startswith(_UNSECURED_CLAIM)
    }
    if "sub" not in claims:
        raise ConfigError(
            f'Missing required configuration "{_TOKEN_URL}": OAUTHBEARER needs an endpoint that '
            f"(or, for tests, {_UNSECURED_CLAIM}sub in {JAAS_KEY})",
            key=_TOKEN_URL,
        )
    return claims
