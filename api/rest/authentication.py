"""Identifies the sender of a request: the users of a worker and their roles.

A user is named by basic authentication, by a bearer token, or by the certificate of a TLS client,
in this order. The web framework is not needed here: it is loaded later.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from api.rest.bearer_tokens import BearerTokens, token_rules
from api.rest.certificates import CertificateRules
from api.rest.config import RestConfig
from api.rest.failed_logins import FailedLogins
from api.rest.roles import Role, roles_of
from api.rest.security import Users, basic_credentials, users_of
from connect.config.rest_access_keys import CERTIFICATE_RULES
from connect.errors import ConfigError

__all__ = ["ROLE", "USER", "Authentication", "Login", "authentication_of"]

USER, ROLE = "connect.user", "connect.role"
"""The keys of a request's scope that hold the user's name and `Role`."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Login:
    """The result of a login. `role` None: the user has none. `wait_s`: the seconds until another
    attempt is allowed."""

    user: str | None = None
    role: Role | None = None
    wait_s: int = 0


class Authentication:
    """The users of a worker and their roles. Safe to use from any thread."""

    def __init__(
        self,
        users: Users | None,
        roles: Mapping[str, Role],
        certificates: CertificateRules | None = None,
        tokens: BearerTokens | None = None,
    ) -> None:
        self._users = users
        self._roles = dict(roles)
        self._certificates = certificates
        self._tokens = tokens
        self._failed = FailedLogins()

    @property
    def challenge(self) -> dict[str, str]:
        """Return the headers of a 401 answer."""
        offered = []
        if self._users is not None:
            offered.append('Basic realm="Kafka Connect"')
        if self._tokens is not None:
            offered.append('Bearer realm="Kafka Connect"')
        return {"WWW-Authenticate": ", ".join(offered)} if offered else {}

    def login(self, authorization: str | None, subject: str | None, address: str) -> Login:
        """Return who sends a request. `subject`: that of the client's verified certificate. May
        take long."""
        scheme, _, value = (authorization or "").partition(" ")
        if scheme.lower() == "basic" and self._users is not None:
            return self._by_password(self._users, value, address)
        if scheme.lower() == "bearer" and self._tokens is not None:
            return self._by_token(self._tokens, value.strip(), address)
        if subject is not None and self._certificates is not None:
            return self._by_certificate(self._certificates, subject)
        return Login()

    def _by_password(self, users: Users, encoded: str, address: str) -> Login:
        given = basic_credentials(encoded)
        user = None if given is None else given[0]
        # Whoever sends what was right before never waits, whatever others try in that name.
        if given is not None and users.was_verified(*given):
            return Login(given[0], self._roles.get(given[0], Role.ADMIN))
        wait = self._failed.wait_ms(address, user)
        if wait:
            return Login(wait_s=-(-wait // 1000))
        if given is None or not users.verify(*given):
            self._failed.failed(address, user)
            return Login()
        self._failed.succeeded(address, given[0])
        return Login(given[0], self._roles.get(given[0], Role.ADMIN))

    def _by_token(self, tokens: BearerTokens, token: str, address: str) -> Login:
        wait = self._failed.wait_ms(address, None)
        if wait:
            return Login(wait_s=-(-wait // 1000))
        found = tokens.user(token)
        if found is None:
            self._failed.failed(address, None)
            return Login()
        return Login(*found)

    def _by_certificate(self, rules: CertificateRules, subject: str) -> Login:
        try:
            user = rules.user(subject)
        except ConfigError as error:
            _LOG.error("A client's certificate is refused: %s", error)
            return Login()
        return Login() if user is None else Login(user, self._roles.get(user))


def authentication_of(
    config: RestConfig, props: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> Authentication | None:
    """Return a worker's users; None if it requires no authentication. Raises `ConfigError`."""
    users = users_of(config.extensions, props, environment)
    rules = (props.get(CERTIFICATE_RULES) or "").strip()
    certificates = CertificateRules(rules) if rules else None
    wanted = token_rules(props)
    tokens = None if wanted is None else BearerTokens(wanted)
    if users is None and certificates is None and tokens is None:
        # Raises for roles of users that cannot log in.
        roles_of(props, ())
        return None
    names = users.names() if users is not None and certificates is None else None
    return Authentication(users, roles_of(props, names), certificates, tokens)
