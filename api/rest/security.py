"""Basic authentication: Java's BasicAuthSecurityRestExtension with its JAAS file.

The worker property `rest.extension.classes` enables the extension. A JAAS file with an entry
`KafkaConnect` names the file of users. As for Java, its path is in the system property
`java.security.auth.login.config` in the environment's KAFKA_OPTS; a worker property of that name
works too:

    KafkaConnect {
        org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
        file="/etc/kafka/users.properties";
    };

The file of users has a line `user=password` per user, and at least one. Both files are read once.
No error contains a password.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence

from api.rest.roles import Role, roles_of
from connect.clients.security.jaas_file import LOGIN_CONFIG, read_jaas_entry
from connect.config.java_options import system_property
from connect.config.properties import load_properties
from connect.config.types import invalid_value
from connect.errors import ConfigError

__all__ = ["BASIC_AUTH_EXTENSION", "Users", "users_of"]

BASIC_AUTH_EXTENSION = (
    "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
)

_EXTENSIONS_KEY = "rest.extension.classes"
_ENTRY = "KafkaConnect"
_LOGIN_MODULE = "PropertyFileLoginModule"


class Users:
    """User names, passwords and roles."""

    def __init__(self, passwords: Mapping[str, str], roles: Mapping[str, Role]) -> None:
        """`roles`: of those users that are no admins."""
        self._passwords = {user.encode(): password.encode() for user, password in passwords.items()}
        self._roles = dict(roles)

    def __repr__(self) -> str:
        return f"Users({len(self._passwords)})"

    def role_of(self, user: str) -> Role:
        return self._roles.get(user, Role.ADMIN)

    def user(self, authorization: str | None) -> str | None:
        """Return the user whom an Authorization header names with the right password."""
        scheme, _, encoded = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        except (binascii.Error, ValueError):
            return None
        expected = self._passwords.get(user)
        # Compare passwords of unknown users too, so that the response time does not show which
        # users exist.
        same = hmac.compare_digest(password, b"" if expected is None else expected)
        known = bool(colon) and expected is not None and same
        return user.decode("utf-8", "replace") if known else None


def users_of(
    extensions: Sequence[str], props: Mapping[str, str], environment: Mapping[str, str]
) -> Users | None:
    """Return the users of a worker; None if it requires no authentication.

    Raises ConfigError for any other extension, because ignoring it could leave the worker open.
    """
    for name in extensions:
        if name not in (BASIC_AUTH_EXTENSION, BASIC_AUTH_EXTENSION.rpartition(".")[2]):
            raise invalid_value(
                _EXTENSIONS_KEY,
                name,
                f"Java classes cannot be used here; the only extension is {BASIC_AUTH_EXTENSION}",
            )
    if not extensions:
        return None
    location = system_property(LOGIN_CONFIG, environment) or props.get(LOGIN_CONFIG)
    if not location:
        raise ConfigError(
            f"{_EXTENSIONS_KEY} requires basic authentication, but there is no JAAS file; name "
            f"it with -D{LOGIN_CONFIG}=<file> in KAFKA_OPTS, or with the worker property "
            f"{LOGIN_CONFIG}",
            key=LOGIN_CONFIG,
        )
    file = _users_file(location)
    users = load_properties(file)
    if not users:
        # Java then admits everybody, although the operator asked for authentication.
        raise invalid_value(
            LOGIN_CONFIG,
            location,
            f"the file of users {file} names no user; add a line user=password, or remove"
            f" {_EXTENSIONS_KEY} to let everybody in",
        )
    return Users(users, roles_of(props, users))


def _users_file(location: str) -> str:
    module = read_jaas_entry(location, _ENTRY)
    if module.name != _LOGIN_MODULE:
        raise invalid_value(
            LOGIN_CONFIG,
            location,
            f"the login module of {_ENTRY} is {module.name}; only {_LOGIN_MODULE} is supported",
        )
    users = module.options.get("file", "")
    if not users:
        raise invalid_value(LOGIN_CONFIG, location, f'{_LOGIN_MODULE} needs an option file="..."')
    return users
