"""Basic authentication: Java's BasicAuthSecurityRestExtension with its JAAS file.

The worker property `rest.extension.classes` enables the extension. A JAAS file with an entry
`KafkaConnect` names the file of users. As for Java, its path is in the system property
`java.security.auth.login.config` in the environment's KAFKA_OPTS; a worker property of that name
works too:

    KafkaConnect {
        org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
        file="/etc/kafka/users.properties";
    };

The file of users has a line `user=password` per user, and at least one. The password may be a hash
(`api.rest.passwords`). Both files are read once. No error contains a password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import threading
from collections.abc import Mapping, Sequence

from api.rest.passwords import DUMMY, is_hash, is_valid_hash, matches
from connect.clients.security.jaas_file import LOGIN_CONFIG, read_jaas_entry
from connect.config.java_options import system_property
from connect.config.properties import load_properties
from connect.config.secrets import remember
from connect.config.types import invalid_value
from connect.errors import ConfigError

__all__ = [
    "BASIC_AUTH_EXTENSION",
    "EXTENSIONS_KEY",
    "Users",
    "basic_credentials",
    "is_basic_auth",
    "users_of",
]

_LOG = logging.getLogger(__name__)

BASIC_AUTH_EXTENSION = (
    "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
)

EXTENSIONS_KEY = "rest.extension.classes"
_ENTRY = "KafkaConnect"
_LOGIN_MODULE = "PropertyFileLoginModule"


def is_basic_auth(extension: str) -> bool:
    """Return whether this is the name of Java's extension for basic authentication."""
    return extension in (BASIC_AUTH_EXTENSION, BASIC_AUTH_EXTENSION.rpartition(".")[2])


class Users:
    """User names and passwords. Safe to use from any thread."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """`passwords`: plain or hashed, by user."""
        self._passwords = dict(passwords)
        self._salt = os.urandom(32)
        self._lock = threading.Lock()
        self._verified: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"Users({len(self._passwords)})"

    def names(self) -> frozenset[str]:
        return frozenset(self._passwords)

    def was_verified(self, user: str, password: bytes) -> bool:
        """Return whether `verify` has accepted the same pair before. Fast."""
        with self._lock:
            return self._verified.get(user) == self._mark(password)

    def verify(self, user: str, password: bytes) -> bool:
        """Return whether this is the user's password. May take tens of ms."""
        expected = self._passwords.get(user)
        # Unknown users take as long as known ones, so that the time does not show who exists.
        hashed = any(map(is_hash, self._passwords.values()))
        known = matches(password, expected or (DUMMY if hashed else "")) and expected is not None
        if known:
            with self._lock:
                self._verified[user] = self._mark(password)
        return known

    def _mark(self, password: bytes) -> bytes:
        return hashlib.blake2b(password, key=self._salt).digest()


def basic_credentials(encoded: str) -> tuple[str, bytes] | None:
    """Return user and password of a Basic Authorization header's value; None if it is invalid."""
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None


def users_of(
    extensions: Sequence[str], props: Mapping[str, str], environment: Mapping[str, str]
) -> Users | None:
    """Return the users of a worker's password file; None if it has none.

    Raises `ConfigError`.
    """
    if not any(map(is_basic_auth, extensions)):
        return None
    location = system_property(LOGIN_CONFIG, environment) or props.get(LOGIN_CONFIG)
    if not location:
        raise ConfigError(
            f"{EXTENSIONS_KEY} requires basic authentication, but there is no JAAS file; name "
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
            f" {EXTENSIONS_KEY} to let everybody in",
        )
    _check_passwords(users, location, file)
    return Users(users)


def _check_passwords(users: Mapping[str, str], location: str, file: str) -> None:
    for user, password in users.items():
        if is_hash(password) and not is_valid_hash(password):
            raise invalid_value(
                LOGIN_CONFIG,
                location,
                f"the hash of user {user} in {file} cannot be used; make one with "
                "python -m api.cli.hash_password",
            )
    plain = [user for user, password in users.items() if not is_hash(password)]
    remember(users[user] for user in plain)
    if plain:
        _LOG.warning(
            "Passwords in %s are not hashed (users %s); replace them by what "
            "python -m api.cli.hash_password prints",
            file,
            ", ".join(plain),
        )


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
