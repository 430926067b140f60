"""A broker whose user's password can end while clients are logged in with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import admin

__all__ = ["SCRAM", "EndingPassword", "ending_password"]

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SESSION_MS = 3_000
"""Who logged in with the old password has to log in again so soon."""

_LISTENER, _USER = "SASL", "ali"
_ITERATIONS = 4_096
_CHANGE_S = 60.0


@dataclass(frozen=True)
class EndingPassword:
    cluster: KafkaCluster

    def login(self, password: str) -> dict[str, str]:
        """Client properties of the user. `password`: or a reference to it."""
        return {
            "bootstrap.servers": self.cluster.bootstrap(_LISTENER),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{SCRAM} required username="{_USER}" password="{password}";',
        }

    def change(self, password: str) -> None:
        """From now on the user has this password."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, _ITERATIONS)
        change = UserScramCredentialUpsertion(_USER, info, password.encode())
        client = admin(self.cluster.bootstrap_servers)
        for changed in client.alter_user_scram_credentials([change]).values():
            changed.result(_CHANGE_S)


@contextmanager
def ending_password(
    name: str, password: str, kafka: KafkaRuntime, logs: Path
) -> Iterator[EndingPassword]:
    """Start the broker. It also has a listener without a login."""
    prefix = f"listener.name.{_LISTENER.lower()}"
    with KafkaCluster(
        name=name,
        kafka=kafka,
        logs=logs,
        listeners={_LISTENER: "SASL_PLAINTEXT"},
        properties={
            f"{prefix}.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
            f"{prefix}.connections.max.reauth.ms": str(SESSION_MS),
            "log.retention.ms": "-1",
        },
        format_arguments=["--add-scram", f"SCRAM-SHA-256=[name={_USER},password={password}]"],
    ) as cluster:
        yield EndingPassword(cluster)
