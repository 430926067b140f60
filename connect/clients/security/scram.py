"""SCRAM for raw connections and group members, as strict as Java's.

It is kafka-python's with a minimum of iterations, a comparison in constant time, escaped user
names (RFC 5802) and delegation tokens (KIP-48): id and HMAC of a token stand for user and
password, and an extension of the first message says so.
"""

from __future__ import annotations

import base64
import hmac
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

from connect.errors import AuthenticationFailed

__all__ = ["MINIMUM_ITERATIONS", "DelegationTokenId", "install", "remedy"]

MINIMUM_ITERATIONS = 4096
"""With fewer, an attacker in place of the broker could guess the password quickly."""


_TOKEN_EXTENSION = b",tokenauth=true"


class DelegationTokenId(str):
    """The id of a delegation token, given as the user's name. Not a secret, unlike its HMAC."""

    __slots__ = ()


def remedy(user: object) -> str:
    """Return the end of a refusal's sentence: what helps where the user is a delegation token."""
    if not isinstance(user, DelegationTokenId):
        return ""
    return (
        f". The delegation token {user} has expired or was removed, or its HMAC is wrong: create a"
        " new one (kafka-delegation-tokens.sh --create) and put its id and HMAC into"
        " sasl.jaas.config; renew it before it expires (--renew)"
    )


class _StrictClient(ScramClient):  # type: ignore[misc]
    token = False
    """Whether user and password are those of a delegation token."""

    def first_message(self) -> bytes:
        message: bytes = super().first_message()
        if not self.token:
            return message
        # The proof is of the whole message.
        self.auth_message += _TOKEN_EXTENSION
        return message + _TOKEN_EXTENSION

    def process_server_first_message(self, server_first_message: bytes) -> None:
        iterations = _fields(server_first_message).get("i", "")
        if iterations.isdecimal() and int(iterations) < MINIMUM_ITERATIONS:
            raise AuthenticationFailed(
                f"The broker asks for {iterations} SCRAM iterations, which would give the password"
                f" away; at least {MINIMUM_ITERATIONS} are needed. Create the user's "
                "credentials again with more iterations"
            )
        super().process_server_first_message(server_first_message)

    def process_server_final_message(self, server_final_message: bytes) -> None:
        given = base64.b64decode(_fields(server_final_message)["v"])
        if not hmac.compare_digest(self.server_signature, given):
            raise AuthenticationFailed("The broker does not know the user's SCRAM credentials")


class _StrictScram(SaslMechanismScram):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        given = config["sasl_plain_username"]
        user = given.replace("=", "=3D").replace(",", "=2C")
        self._scram_client = _StrictClient(
            user, config["sasl_plain_password"], config["sasl_mechanism"]
        )
        self._scram_client.token = isinstance(given, DelegationTokenId)


def install() -> None:
    """Make kafka-python use this for all its connections. May be called repeatedly."""
    for name in ScramClient.MECHANISMS:
        register_sasl_mechanism(name, _StrictScram, overwrite=True)


def _fields(message: bytes) -> dict[str, str]:
    parts = message.decode().split(",")
    return dict(part.split("=", 1) for part in parts if "=" in part)
