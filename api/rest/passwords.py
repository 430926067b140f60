"""Hashed passwords in the file of users: Argon2id, as PHC strings.

A value that starts with `$argon2id$` is a hash; any other value is the password itself. Only hashes
need `cryptography`, which takes 9 MB of a process.
"""

from __future__ import annotations

import hmac
import os

__all__ = ["DUMMY", "hash_password", "is_hash", "is_valid_hash", "matches"]

_PREFIX = "$argon2id$"
# OWASP's first choice of parameters: 19 MiB, two passes, one lane.
_MEMORY_KIB, _PASSES, _LANES = 19_456, 2, 1
_SALT_BYTES, _HASH_BYTES = 16, 32
# Parameters of a hash in the file beyond these would make each login exhaust the machine.
_MOST_MEMORY_KIB, _MOST_PASSES = 1 << 20, 20

DUMMY = (
    "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)
"""A hash that no password matches, to spend the same time on unknown users."""


def hash_password(password: str) -> str:
    """Return the hash to write into the file of users."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    kdf = Argon2id(
        salt=os.urandom(_SALT_BYTES),
        length=_HASH_BYTES,
        iterations=_PASSES,
        lanes=_LANES,
        memory_cost=_MEMORY_KIB,
    )
    return kdf.derive_phc_encoded(password.encode())


def is_hash(value: str) -> bool:
    """Return whether a value of the file of users is a hash."""
    return value.startswith("$argon2")


def is_valid_hash(value: str) -> bool:
    """Return whether a hash can be checked, within bounds of memory and time."""
    parts = value.split("$")
    if not value.startswith(_PREFIX) or len(parts) != 6:
        return False
    try:
        cost = {key: int(number) for key, _, number in map(_split, parts[3].split(","))}
    except ValueError:
        return False
    return (
        cost.keys() == {"m", "t", "p"}
        and 8 <= cost["m"] <= _MOST_MEMORY_KIB
        and 1 <= cost["t"] <= _MOST_PASSES
    )


def _split(text: str) -> tuple[str, str, str]:
    return text.partition("=")


def matches(password: bytes, expected: str) -> bool:
    """Return whether a password is the one that the file of users holds, plain or as a hash. Takes
    tens of ms for a hash."""
    if not is_hash(expected):
        return hmac.compare_digest(password, expected.encode())
    from cryptography.exceptions import InvalidKey
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    try:
        Argon2id.verify_phc_encoded(password, expected)
    except InvalidKey:
        return False
    return True
