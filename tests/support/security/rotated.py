"""A broker with mutual TLS whose certificates, and those of its clients, are replaced."""

from __future__ import annotations

import os
from pathlib import Path

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.security.certificates import Authority

__all__ = ["Rotated"]

_BROKER = "listener.name.mutual.ssl"


class Rotated:
    """A broker that admits only clients whose certificate its authority has signed, and the files
    of both sides."""

    def __init__(self, directory: Path, kafka: KafkaRuntime, logs: Path) -> None:
        self._directory = directory
        self.rotate()
        stores = {
            "keystore.type": "PEM",
            "keystore.location": str(directory / "broker.pem"),
            "truststore.type": "PEM",
            "truststore.location": str(directory / "ca.pem"),
            "client.auth": "required",
        }
        self.cluster = KafkaCluster(
            name="rotated",
            kafka=kafka,
            logs=logs,
            listeners={"MUTUAL": "SSL"},
            properties={f"{_BROKER}.{key}": value for key, value in stores.items()},
        )

    def rotate(self) -> None:
        """Another authority, and keys and certificates from it. The broker reads its files when it
        starts."""
        authority = Authority()
        self._put("ca.pem", authority.pem)
        for name in ("broker", "client"):
            self._put(f"{name}.pem", *authority.issue(name, "127.0.0.1"))

    def _put(self, name: str, *parts: str) -> None:
        new = self._directory / f"{name}.new"
        new.write_text("".join(parts))
        os.replace(new, self._directory / name)

    @property
    def properties(self) -> dict[str, str]:
        """Java client properties."""
        return {
            "bootstrap.servers": self.cluster.bootstrap("MUTUAL"),
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._directory / "client.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._directory / "ca.pem"),
        }

    def rotate_and_restart(self) -> None:
        self.cluster.stop()
        self.rotate()
        self.cluster.restart()
