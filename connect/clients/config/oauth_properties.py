"""Convert Java's `sasl.oauthbearer.*` properties for librdkafka and to token providers.

| `sasl.oauthbearer.jwt.retriever.class` | tokens |
|---|---|
| DefaultJwtRetriever | of a file, if the URL is file:; else as ClientCredentialsJwtRetriever |
| ClientCredentialsJwtRetriever | of an endpoint, for client id and secret, or for an assertion |
| JwtBearerJwtRetriever | of an endpoint, for an assertion alone (RFC 7523) |
| FileJwtRetriever | of a file |
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connect.clients.security.configured_stores import trusted_certificates
from connect.clients.security.jaas import JAAS_KEY, LoginModule
from connect.clients.security.oauth import (
    ClientCredentials,
    ClientCredentialsProvider,
    FileTokenProvider,
    TokenEndpoint,
    TokenProvider,
    UnsecuredTokenProvider,
)
from connect.clients.security.oauth_assertion import (
    Assertion,
    AssertionProvider,
    FileAssertion,
    SignedAssertion,
)
from connect.clients.security.tls import ssl_context
from connect.config.definition import ConfigDef
from connect.config.security import SECURITY_KEYS
from connect.config.types import ConfigType, invalid_value, parse_value
from connect.errors import ConfigError

__all__ = ["TOKEN_URL", "librdkafka_oauth", "token_provider"]

_OAUTH = "sasl.oauthbearer."
TOKEN_URL = _OAUTH + "token.endpoint.url"
_RETRIEVER = _OAUTH + "jwt.retriever.class"
_ASSERTION = _OAUTH + "assertion."
_ASSERTION_FILE, _ISSUER = _ASSERTION + "file", _ASSERTION + "claim.iss"
_PRIVATE_KEY_FILE = _ASSERTION + "private.key.file"
_JWT_BEARER = "JwtBearerJwtRetriever"
_RETRIEVERS = (
    "DefaultJwtRetriever",
    "ClientCredentialsJwtRetriever",
    "FileJwtRetriever",
    _JWT_BEARER,
)
_EXTENSION = "extension_"
_UNSECURED_CLAIM = "unsecuredLoginStringClaim_"
_ASSERTION_DEF = ConfigDef([key for key in SECURITY_KEYS if key.name.startswith(_ASSERTION)])


def librdkafka_oauth(props: Mapping[str, str], module: LoginModule) -> dict[str, Any]:
    """Return librdkafka's properties. Raises ConfigError.

    It gets its own tokens for client credentials. All others it gets through a callback.
    """
    url = _token_url(props)
    if url is None:
        claims = _unsecured_claims(module)
        return {
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal={claims['sub']}",
        }
    if isinstance(url, Path) or _asserts(props):
        return {"oauth_cb": _oauth_callback(token_provider(props, module))}
    credentials = _client_credentials(props, module)
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
    if trusted := trusted_certificates(_module_tls(module)):
        config["https.ca.pem"] = trusted
    return config


def _oauth_callback(provider: TokenProvider) -> Any:
    """Return confluent-kafka's callback, which gives token, expiry in epoch seconds, principal and
    extensions.
    """

    def fetch(_config: str) -> tuple[str, float, str, dict[str, str]]:
        token = provider.current()
        return token.text, token.expires_ms / 1000, "", provider.extensions()

    return fetch


def token_provider(props: Mapping[str, str], module: LoginModule) -> TokenProvider:
    """Return the source of tokens of raw connections. Raises ConfigError."""
    url = _token_url(props)
    extensions = _extensions(module)
    if url is None:
        return UnsecuredTokenProvider(_unsecured_claims(module), extensions)
    if isinstance(url, Path):
        return FileTokenProvider(url, extensions)
    if _asserts(props):
        return _assertion_provider(props, module, url)
    return ClientCredentialsProvider(
        _client_credentials(props, module), _endpoint(props, module, url), extensions
    )


def _retriever(props: Mapping[str, str]) -> str:
    name = props.get(_RETRIEVER, "").rpartition(".")[2] or _RETRIEVERS[0]
    if name not in _RETRIEVERS:
        known = f"{', '.join(_RETRIEVERS[:-1])} or {_RETRIEVERS[-1]}"
        raise invalid_value(_RETRIEVER, name, f"must be {known}")
    return name


def _asserts(props: Mapping[str, str]) -> bool:
    """Whether a token is asked for with an assertion, by Java's rules."""
    wanted = _retriever(props) == _JWT_BEARER
    return wanted or any(props.get(key) for key in (_ASSERTION_FILE, _ISSUER))


def _assertion_provider(
    props: Mapping[str, str], module: LoginModule, url: str
) -> AssertionProvider:
    identifies_client = _retriever(props) != _JWT_BEARER
    return AssertionProvider(
        _assertion(props),
        _endpoint(props, module, url),
        _extensions(module),
        scope=_pick(props, module, "scope", "scope"),
        client=identifies_client,
        client_id=_pick(props, module, "client.credentials.client.id", "clientId")
        if identifies_client
        else None,
    )


def _assertion(props: Mapping[str, str]) -> Assertion:
    parsed = _ASSERTION_DEF.parse(props)
    file = parsed.optional_string(_ASSERTION_FILE)
    if file:
        return FileAssertion(Path(file))
    key_file = parsed.optional_string(_PRIVATE_KEY_FILE)
    if not key_file:
        raise ConfigError(
            f'Missing required configuration "{_PRIVATE_KEY_FILE}" (or {_ASSERTION_FILE}): '
            "an assertion is signed with a private key",
            key=_PRIVATE_KEY_FILE,
        )
    template = parsed.optional_string(_ASSERTION + "template.file")
    claims = {
        name: value
        for name in ("aud", "iss", "sub")
        if (value := parsed.optional_string(f"{_ASSERTION}claim.{name}"))
    }
    made = SignedAssertion(
        algorithm=parsed.string(_ASSERTION + "algorithm").upper(),
        key_file=Path(key_file),
        passphrase=parsed.secret(_ASSERTION + "private.key.passphrase"),
        claims=claims,
        template_file=Path(template) if template else None,
        life_s=parsed.integer(_ASSERTION + "claim.exp.seconds"),
        before_s=parsed.integer(_ASSERTION + "claim.nbf.seconds"),
        has_id=parsed.boolean(_ASSERTION + "claim.jti.include"),
    )
    made.text(0)  # Names a wrong file or key now, not when the first connection is opened.
    return made


def _token_url(props: Mapping[str, str]) -> str | Path | None:
    """Return an http(s) URL, the path of a file: URL, or None for unsecured tokens."""
    asserts = _retriever(props) == _JWT_BEARER
    url = props.get(TOKEN_URL, "").strip()
    if not url and asserts:
        raise ConfigError(
            f'Missing required configuration "{TOKEN_URL}": {_JWT_BEARER} sends assertions there',
            key=TOKEN_URL,
        )
    if not url:
        return None
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file" and not asserts:
        return Path(urllib.parse.unquote(parts.path))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise invalid_value(TOKEN_URL, url, "must be an http:, https: or file: URL")
    return url


def _pick(props: Mapping[str, str], module: LoginModule, key: str, option: str) -> str | None:
    return props.get(_OAUTH + key) or module.options.get(option)


def _client_credentials(props: Mapping[str, str], module: LoginModule) -> ClientCredentials:
    client_id = _pick(props, module, "client.credentials.client.id", "clientId")
    secret = _pick(props, module, "client.credentials.client.secret", "clientSecret")
    if not client_id or secret is None:
        missing = (
            "client.credentials.client.secret" if client_id else "client.credentials.client.id"
        )
        raise ConfigError(
            f'Missing required configuration "{_OAUTH}{missing}" (or clientId and clientSecret in '
            f"{JAAS_KEY}): the request to {TOKEN_URL} needs client credentials",
            key=_OAUTH + missing,
        )
    urlencode_key = _OAUTH + "header.urlencode"
    url_encode = parse_value(urlencode_key, props.get(urlencode_key, "false"), ConfigType.BOOLEAN)
    return ClientCredentials(
        client_id=client_id,
        client_secret=secret,
        scope=_pick(props, module, "scope", "scope"),
        url_encode=bool(url_encode),
    )


def _endpoint(props: Mapping[str, str], module: LoginModule, url: str) -> TokenEndpoint:
    connect_ms = props.get("sasl.login.connect.timeout.ms") or "10000"
    timeout_ms = parse_value("sasl.login.connect.timeout.ms", connect_ms, ConfigType.INT)
    assert isinstance(timeout_ms, int)
    return TokenEndpoint(
        url,
        timeout_ms / 1000,
        ssl_context(_module_tls(module)) if url.startswith("https:") else None,
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
            f'Missing required configuration "{TOKEN_URL}": OAUTHBEARER needs a token '
            f"endpoint (or, for tests, {_UNSECURED_CLAIM}sub in {JAAS_KEY})",
            key=TOKEN_URL,
        )
    return claims
