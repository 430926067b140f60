"""SCRAM for raw connections and group members, as strict as Java's.

It is kafka-python's with a minimum of iterations, a comparison in constant time and escaped user
names (RFC 5802).
"""

from __future__ import annotations

import base64
import hmac
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

from connect.errors import AuthenticationFailed

__all__ = ["MINIMUM_ITERATIONS", "install"]

MINIMUM_ITERATIONS = 4096
"""With fewer, who plays the broker learns enough to guess the password quickly."""


class _StrictClient(ScramClient):  # type: ignore[misc]
    def process_server_first_message(self, server_first_message: bytes) -> None:
        iterations = _fields(server_first_message).get("i", "")
        if iterations.isdecimal() and int(iterations) < MINIMUM_ITERATIONS:
            raise AuthenticationFailed(
                f"The broker asks for {iterations} SCRAM iterations, which would give the password"
                f" away; at least {MINIMUM_ITERATIONS} are needed. Create the user's credentials"
                " anew with more"
            )
        super().process_server_first_message(server_first_message)

    def process_server_final_message(self, server_final_message: bytes) -> None:
        given = base64.b64decode(_fields(server_final_message)["v"])
        if not hmac.compare_digest(self.server_signature, given):
            raise AuthenticationFailed("The broker does not know the user's SCRAM credentials")


class _StrictScram(SaslMechanismScram):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        user = config["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")
        self._scram_client = _StrictClient(
            user, config["sasl_plain_password"], config["sasl_mechanism"]
        )


def install() -> None:
    """Make kafka-python use this for all its connections. May be called repeatedly."""
    for name in ScramClient.MECHANISMS:
        register_sasl_mechanism(name, _StrictScram, overwrite=True)


def _fields(message: bytes) -> dict[str, str]:
    parts = message.decode().split(",")
    return dict(part.split("=", 1) for part in parts if "=" in part)
