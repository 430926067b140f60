"""OAUTHBEARER tokens from client credentials or a file, or unsecured ones for tests.

Tokens for assertions are in `oauth_assertion`. librdkafka gets its own tokens for client
credentials; others it gets through a callback. Tokens and secrets are never part of a log line or
an error.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.bounded_http import fetch
from connect.config.secrets import remember
from connect.errors import BrokerUnavailable, ConfigError

__all__ = [
    "ClientCredentials",
    "ClientCredentialsProvider",
    "EndpointProvider",
    "FileTokenProvider",
    "Token",
    "TokenEndpoint",
    "TokenProvider",
    "UnsecuredTokenProvider",
]

# The assumed lifetime of a token if the endpoint does not report one.
_DEFAULT_LIFE_S = 300.0
# The share of a token's lifetime after which it is renewed: Java's
# sasl.login.refresh.window.factor.
_RENEW_AFTER = 0.8
_HTTP_TIMEOUT_S = 10.0
_UNSECURED_LIFE_S = 3600.0
# How long the next attempt waits after a renewal that failed.
_RETRY_S = 5.0
_BUSY = (408, 425, 429)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its expiry time in epoch ms."""

    text: str = field(repr=False)
    expires_ms: int


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The endpoint for tokens, and how requests to it are sent."""

    url: str
    connect_timeout_s: float = _HTTP_TIMEOUT_S
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A token request: OAuth 2 client credentials grant (RFC 6749, 4.4)."""

    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    url_encode: bool = False
    """Whether to URL-encode id and secret in the header: RFC 6749 requires it, many servers do
    not.
    """


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """A kafka-python token provider that keeps a token for most of its lifetime.

    Safe to call from any thread; one thread renews the token at a time.
    """

    def __init__(self, extensions: Mapping[str, str], clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._extensions = dict(extensions)
        self._clock = clock
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._token: Token | None = None
        self._renew_at_ms = 0

    def token(self) -> str:
        """Return a valid token. Raises `BrokerUnavailable` or `ConfigError`."""
        return self.current().text

    def current(self) -> Token:
        """Return a valid token with its expiry time; waits for a new one only if there is none.

        A token is renewed in the background when most of its lifetime is over. If that fails, it is
        used until it expires.
        """
        token = self._usable()
        if token is not None:
            return token
        with self._renewing:
            # Another thread may have renewed it meanwhile.
            return self._usable() or self._renew_now()

    def without_waiting(self) -> Token | None:
        """Return a valid token, or None and get one in the background."""
        token = self._usable()
        if token is None:
            self._renew_in_background()
        return token

    def _usable(self) -> Token | None:
        now_ms = self._clock.now_ms()
        with self._lock:
            token, renew_at_ms = self._token, self._renew_at_ms
        if token is None or now_ms >= token.expires_ms:
            return None
        if now_ms >= renew_at_ms:
            self._renew_in_background()
        return token

    def _renew_now(self) -> Token:
        now_ms = self._clock.now_ms()
        token = self._renew(now_ms)
        remember([token.text])
        life_ms = max(0, token.expires_ms - now_ms)
        with self._lock:
            self._token = token
            self._renew_at_ms = now_ms + int(life_ms * _RENEW_AFTER)
        return token

    def _renew_in_background(self) -> None:
        """Start a thread that ends with the request, unless one runs."""
        if not self._renewing.acquire(blocking=False):
            return
        try:
            threading.Thread(target=self._try, name="oauth-renewal", daemon=True).start()
        except BaseException:
            self._renewing.release()
            raise

    def _try(self) -> None:
        try:
            self._renew_now()
        except Exception as error:  # noqa: BLE001 - the top of a thread
            _log.warning("Cannot renew the OAuth token, will retry: %s", error)
            with self._lock:
                self._renew_at_ms = self._clock.now_ms() + int(_RETRY_S * 1000)
        finally:
            self._renewing.release()

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions to send (RFC 7628)."""
        return self._extensions

    @abstractmethod
    def _renew(self, now_ms: int) -> Token:
        """Get a new token."""


class EndpointProvider(TokenProvider):
    """Gets tokens from an OAuth server over HTTP, within its connect timeout."""

    refused = ""
    """What to check when the server refuses the request."""

    def __init__(
        self, endpoint: TokenEndpoint, extensions: Mapping[str, str], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(extensions, clock)
        self._endpoint = endpoint

    @abstractmethod
    def _form(self, now_ms: int) -> dict[str, str]:
        """Return the parameters of a request. Raises ConfigError."""

    def _headers(self) -> dict[str, str]:
        """Return the headers of a request besides the common ones."""
        return {}

    def _renew(self, now_ms: int) -> Token:
        url = self._endpoint.url
        request = self._request(now_ms)
        try:
            timeout_s, tls = self._endpoint.connect_timeout_s, self._endpoint.ssl_context
            answer = json.loads(fetch(request, timeout_s, tls))
        except urllib.error.HTTPError as error:
            error.close()
            raise _refusal(url, error.code, self.refused) from None
        except (OSError, ValueError) as error:
            raise BrokerUnavailable(
                f"The request to token endpoint {url} failed: {type(error).__name__}"
            ) from error
        return _token_of(answer, url, now_ms)

    def _request(self, now_ms: int) -> urllib.request.Request:
        return urllib.request.Request(
            self._endpoint.url,
            data=urllib.parse.urlencode(self._form(now_ms)).encode(),
            headers={
                **self._headers(),
                "Content-Type": "application/x-www-form-urlencoded",
                "Accept": "application/json",
            },
            method="POST",
        )


class ClientCredentialsProvider(EndpointProvider):
    """Gets tokens for a client id and secret."""

    refused = "refused the client credentials; check client id, secret and scope"

    def __init__(
        self,
        credentials: ClientCredentials,
        endpoint: TokenEndpoint,
        extensions: Mapping[str, str],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(endpoint, extensions, clock)
        self._credentials = credentials

    def _form(self, now_ms: int) -> dict[str, str]:
        form = {"grant_type": "client_credentials"}
        if self._credentials.scope:
            form["scope"] = self._credentials.scope
        return form

    def _headers(self) -> dict[str, str]:
        asked = self._credentials
        pair = (asked.client_id, asked.client_secret)
        if asked.url_encode:
            pair = (urllib.parse.quote_plus(pair[0]), urllib.parse.quote_plus(pair[1]))
        return {"Authorization": "Basic " + base64.b64encode(":".join(pair).encode()).decode()}


def _refusal(url: str, status: int, refused: str) -> ConfigError | BrokerUnavailable:
    if status >= 500 or status in _BUSY:
        return BrokerUnavailable(f"The token endpoint {url} returned HTTP {status}")
    if 300 <= status < 400:
        reason = "redirects, which is not followed because it would pass on the secret; name the"
        reason += " endpoint itself"
    else:
        reason = refused
    return ConfigError(
        f"The token endpoint {url} answered with HTTP {status}: it {reason}",
        key="sasl.oauthbearer.token.endpoint.url",
    )


class FileTokenProvider(TokenProvider):
    """Reads a token from a file that another program renews, such as a Kubernetes token."""

    def __init__(
        self, path: Path, extensions: Mapping[str, str], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(extensions, clock)
        self._path = path

    def _renew(self, now_ms: int) -> Token:
        try:
            text = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"The token file {self._path} cannot be read: {type(error).__name__}",
                key="sasl.oauthbearer.token.endpoint.url",
            ) from error
        return Token(text, _expiry_ms(text, now_ms))


class UnsecuredTokenProvider(TokenProvider):
    """Makes unsigned tokens, which only brokers configured for tests accept."""

    def __init__(
        self, claims: Mapping[str, Any], extensions: Mapping[str, str], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(extensions, clock)
        self._claims = dict(claims)

    def _renew(self, now_ms: int) -> Token:
        expires_ms = now_ms + int(_UNSECURED_LIFE_S * 1000)
        claims = {"iat": now_ms / 1000, "exp": expires_ms / 1000, **self._claims}
        parts = (json.dumps({"alg": "none"}), json.dumps(claims))
        encoded = (base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts)
        return Token(".".join(encoded) + ".", expires_ms)


def _token_of(answer: object, url: str, now_ms: int) -> Token:
    text = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(text, str) or not text:
        raise ConfigError(
            f"The token endpoint {url} answered without an access_token",
            key="sasl.oauthbearer.token.endpoint.url",
        )
    life_s = answer.get("expires_in")
    if isinstance(life_s, int | float):
        return Token(text, now_ms + int(life_s * 1000))
    return Token(text, _expiry_ms(text, now_ms))


def _expiry_ms(token: str, now_ms: int) -> int:
    """Return the `exp` claim of a JWT; for an opaque token, a time that is surely early enough."""
    fallback = now_ms + int(_DEFAULT_LIFE_S * 1000)
    parts = token.split(".")
    if len(parts) != 3:
        return fallback
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return fallback
    expires_s = claims.get("exp") if isinstance(claims, dict) else None
    return int(expires_s * 1000) if isinstance(expires_s, int | float) else fallback
