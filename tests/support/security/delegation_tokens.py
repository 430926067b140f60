"""Delegation tokens, made and ended with Kafka's own command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.brokers import KafkaRuntime
from tests.support.security.canaries import jaas_quoted, properties_text
from tests.support.workers.java import run_java_class

__all__ = ["TOKEN_BROKER", "DelegationToken", "DelegationTokens"]

_MAIN = "org.apache.kafka.tools.DelegationTokenCommand"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
# TOKENID  HMAC  OWNER ...: the row after the header.
_ROW = re.compile(r"^(?P<id>[\w-]{20,})\s+(?P<hmac>[A-Za-z0-9+/=]{20,})\s+User:", re.MULTILINE)

TOKEN_BROKER = {"delegation.token.secret.key": "of-the-brokers-of-this-test"}
"""Broker properties that switch delegation tokens on."""


@dataclass(frozen=True)
class DelegationToken:
    id: str
    hmac: str = field(repr=False)

    def login(self) -> dict[str, str]:
        """Client properties that log in with the token."""
        given = f'username="{self.id}" password="{jaas_quoted(self.hmac)}" tokenauth="true"'
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f"{_MODULE} required {given};",
        }


class DelegationTokens:
    """The tokens of one user. `login`: client properties of the user, without a token."""

    def __init__(
        self, kafka: KafkaRuntime, servers: str, login: Mapping[str, str], folder: Path
    ) -> None:
        self._kafka = kafka
        self._servers = servers
        self._file = folder / "token-owner.properties"
        self._file.write_text(properties_text(login))

    def create(self) -> DelegationToken:
        told = self._run("--create", "--max-life-time-period", "-1")
        row = _ROW.search(told)
        assert row is not None, told
        return DelegationToken(row["id"], row["hmac"])

    def expire(self, token: DelegationToken) -> None:
        """End a token now."""
        self._run("--expire", "--expiry-time-period", "-1", "--hmac", token.hmac)

    def _run(self, *arguments: str) -> str:
        where = ["--bootstrap-server", self._servers, "--command-config", str(self._file)]
        return run_java_class(self._kafka, _MAIN, [*where, *arguments])
