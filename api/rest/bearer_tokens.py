"""Users by OAuth 2 or OpenID Connect bearer tokens: signed JWTs whose keys an HTTPS URL serves.

A token must be signed by an asymmetric algorithm with a key of the URL, name the expected issuer
and one of the expected audiences, and have an expiry time. A claim names the user, another one the
roles. The keys are fetched at the first token, again once an hour, and when a token names a key
that is not known, but at most every 10 seconds.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from api.rest.roles import Role
from connect.clients.security.tls import ssl_context
from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.bounded_http import fetch
from connect.config.definition import ConfigDef
from connect.config.rest_access_keys import OAUTH_PREFIX, REST_ACCESS_KEYS
from connect.config.types import invalid_value
from connect.errors import ConfigError

if TYPE_CHECKING:
    from jwt import PyJWK

__all__ = ["BearerTokens", "TokenRules", "token_rules"]

_LOG = logging.getLogger(__name__)

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_KEEP_S = 3600.0
_RETRY_S = 10.0
_TIMEOUT_S = 5.0
_LONGEST_TOKEN = 16_384
_URL_KEY = f"{OAUTH_PREFIX}jwks.endpoint.url"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The requirements for a token. `roles`: values of the roles claim and what they allow."""

    url: str
    issuer: str
    audiences: tuple[str, ...]
    user_claim: str
    roles_claim: str
    roles: Mapping[str, Role]
    skew_s: int
    tls: ssl.SSLContext | None = field(default=None, repr=False)


def token_rules(props: Mapping[str, str]) -> TokenRules | None:
    """Parse a worker's properties; None if it accepts no tokens. Raises `ConfigError`."""
    parsed = ConfigDef(REST_ACCESS_KEYS).parse(props)
    url = (parsed.optional_string(_URL_KEY) or "").strip()
    if not url:
        return None
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or not (parts.scheme == "https" or local):
        # Whoever can change the keys on their way can make tokens.
        raise invalid_value(_URL_KEY, url, "use an https URL")
    issuer_key, audience_key = f"{OAUTH_PREFIX}expected.issuer", f"{OAUTH_PREFIX}expected.audience"
    issuer = (parsed.optional_string(issuer_key) or "").strip()
    audiences = parsed.strings(audience_key)
    for key, given in ((issuer_key, issuer), (audience_key, audiences)):
        if not given:
            raise ConfigError(
                f"{_URL_KEY} is set, so {key} is needed: without it, tokens that were made for "
                "others would be accepted",
                key=key,
            )
    _check_installed()
    roles: dict[str, Role] = {}
    for name, role in (
        ("viewers", Role.VIEWER),
        ("operators", Role.OPERATOR),
        ("admins", Role.ADMIN),
    ):
        roles |= dict.fromkeys(parsed.strings(f"{OAUTH_PREFIX}{name}"), role)
    tls = {
        key.removeprefix(OAUTH_PREFIX): value
        for key, value in props.items()
        if key.startswith(f"{OAUTH_PREFIX}ssl.")
    }
    return TokenRules(
        url=url,
        issuer=issuer,
        audiences=audiences,
        user_claim=parsed.string(f"{OAUTH_PREFIX}sub.claim.name"),
        roles_claim=parsed.string(f"{OAUTH_PREFIX}roles.claim.name"),
        roles=roles,
        skew_s=parsed.integer(f"{OAUTH_PREFIX}clock.skew.seconds"),
        tls=ssl_context(tls) if parts.scheme == "https" else None,
    )


def _check_installed() -> None:
    try:
        import jwt  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"{_URL_KEY} needs the Python package PyJWT: pip install 'kafka-connect-mirror[oauth]'",
            key=_URL_KEY,
        ) from error


class BearerTokens:
    """Checks tokens. Safe to call from any thread; may wait for the keys' URL."""

    def __init__(self, rules: TokenRules, clock: Clock = SYSTEM_CLOCK) -> None:
        self._rules = rules
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: dict[str, PyJWK] = {}
        self._fetched_s: float | None = None
        self._tried_s: float | None = None

    def user(self, token: str) -> tuple[str, Role | None] | None:
        """Return the token's user and the highest of the user's roles, which is None if no role is
        mapped. None: the token is invalid."""
        import jwt

        rules = self._rules
        if len(token) > _LONGEST_TOKEN:
            return None
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(str(header.get("kid", "")))
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[name for name in _ALGORITHMS if name == header.get("alg")],
                issuer=rules.issuer,
                audience=list(rules.audiences),
                leeway=rules.skew_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            # The message of PyJWT names the claim, and never the token.
            _LOG.debug("A bearer token was refused: %s", type(error).__name__)
            return None
        name = _claim(claims, rules.user_claim)
        if not isinstance(name, str) or not name:
            return None
        return name, self._role(claims)

    def _role(self, claims: Mapping[str, Any]) -> Role | None:
        given = _claim(claims, self._rules.roles_claim)
        names = given.split() if isinstance(given, str) else given
        if not isinstance(names, list):
            return None
        known = self._rules.roles
        return max(
            (known[name] for name in names if isinstance(name, str) and name in known), default=None
        )

    def _key(self, kid: str) -> PyJWK | None:
        """Return the key of that id; the only key, if the token names none."""
        with self._lock:
            now = self._clock.monotonic()
            old = self._fetched_s is None or now - self._fetched_s > _KEEP_S
            if (old or self._known(kid) is None) and (
                self._tried_s is None or now - self._tried_s > _RETRY_S
            ):
                self._tried_s = now
                self._fetch(now)
            return self._known(kid)

    def _known(self, kid: str) -> PyJWK | None:
        if not kid and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    def _fetch(self, now: float) -> None:
        import jwt

        request = urllib.request.Request(self._rules.url)
        try:
            found = jwt.PyJWKSet.from_dict(json.loads(fetch(request, _TIMEOUT_S, self._rules.tls)))
        except (OSError, ValueError, jwt.PyJWTError) as error:
            _LOG.warning(
                "Cannot get the keys of bearer tokens from %s, trying again with the next"
                " token: %s",
                self._rules.url,
                type(error).__name__,
            )
            return
        self._keys = {str(key.key_id or ""): key for key in found.keys if key.key_type != "oct"}
        self._fetched_s = now


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, or by its path with dots. None if it is missing."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found
