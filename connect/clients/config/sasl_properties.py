"""Convert Java's `sasl.*` properties for librdkafka and for kafka-python's SASL mechanisms.

| mechanism | login module | options |
|---|---|---|
| PLAIN | PlainLoginModule | username, password |
| SCRAM-SHA-256, SCRAM-SHA-512 | ScramLoginModule | username, password, tokenauth |
| GSSAPI | Krb5LoginModule | principal, keyTab, useKeyTab, ticketCache, serviceName |
| OAUTHBEARER | OAuthBearerLoginModule | see `connect.clients.config.oauth_properties` |
| AWS_MSK_IAM | IAMLoginModule | awsProfileName |

Without `sasl.jaas.config`, the login module is that of the entry `KafkaClient` in the JAAS file
that `-Djava.security.auth.login.config` in KAFKA_OPTS names, as in Java.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from connect.clients.config.oauth_properties import TOKEN_URL, librdkafka_oauth, token_provider
from connect.clients.security.jaas import JAAS_KEY, LoginModule, parse_jaas
from connect.clients.security.jaas_file import LOGIN_CONFIG, read_jaas_entry
from connect.clients.security.kerberos import KerberosLogin
from connect.clients.security.msk_iam import MskIamLogin
from connect.clients.security.own_mechanisms import LOGIN_KEY
from connect.clients.security.scram import DelegationTokenId
from connect.config.java_options import system_property
from connect.config.types import invalid_value
from connect.errors import ConfigError

__all__ = ["is_beyond_librdkafka", "librdkafka_sasl", "sasl_mechanism", "wire_sasl"]

_SCRAM_MODULE = "ScramLoginModule"
_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM_MODULE,
    "SCRAM-SHA-512": _SCRAM_MODULE,
    "GSSAPI": "Krb5LoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "AWS_MSK_IAM": "IAMLoginModule",
}
# librdkafka has GSSAPI only if it is built with Cyrus SASL, which confluent-kafka's wheels are not.
_BEYOND_LIBRDKAFKA = frozenset({"GSSAPI", "AWS_MSK_IAM"})
# Users of MSK have this handler in their properties, and it says no more than the mechanism.
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_JAAS_ENTRY = "KafkaClient"


def sasl_mechanism(props: Mapping[str, str]) -> str:
    """Return the SASL mechanism, by default GSSAPI as in Java. Raises ConfigError for unknown
    ones.
    """
    mechanism = props.get("sasl.mechanism", "").strip() or "GSSAPI"
    if mechanism not in _MODULES:
        raise invalid_value("sasl.mechanism", mechanism, f"must be one of {', '.join(_MODULES)}")
    return mechanism


def is_beyond_librdkafka(props: Mapping[str, str]) -> bool:
    """Return whether librdkafka lacks the SASL mechanism of these Java properties, or its login
    with a delegation token.

    Its clients then need a `SaslProxy`. Raises ConfigError for unknown mechanisms, and for a wrong
    login module.
    """
    protocol = props.get("security.protocol", "").strip().upper()
    if not protocol.startswith("SASL"):
        return False
    mechanism = sasl_mechanism(props)
    if _MODULES[mechanism] == _SCRAM_MODULE:
        return _is_token(_login_module(props, mechanism))
    return mechanism in _BEYOND_LIBRDKAFKA


def librdkafka_sasl(props: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's SASL properties for a mechanism that it has. Raises ConfigError for
    incomplete ones.
    """
    mechanism = sasl_mechanism(props)
    module = _login_module(props, mechanism)
    config: dict[str, Any] = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return config | librdkafka_oauth(props, module)
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
        return {"sasl_oauth_token_provider": token_provider(props, module)}
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
        if mechanism == "GSSAPI" or (mechanism == "OAUTHBEARER" and props.get(TOKEN_URL)):
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
            f"needs a {expected}" + (f", not a {module.name}" if _is_class(module.name) else ""),
            key=JAAS_KEY,
        )
    return module


def _is_class(name: str) -> bool:
    """Whether this is a class name, and not a part of a password in a wrong place."""
    return name.endswith("LoginModule")


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
    user, password = values
    return (DelegationTokenId(user) if _is_token(module) else user), password


def _is_token(module: LoginModule) -> bool:
    """Whether username and password are the id and the HMAC of a delegation token (KIP-48)."""
    option = _option(module, "tokenauth") or ""
    return module.name == _SCRAM_MODULE and option.strip().lower() == "true"


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
