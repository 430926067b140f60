"""A broker that wants a password full of characters that texts escape."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.brokers import GuardedProcess, KafkaCluster
from tests.support.security.canaries import Canaries, jaas_quoted
from tests.support.waiting import wait_until

__all__ = ["LISTENER", "MODULE", "Guarded", "output_of_failure"]

_FAILED = re.compile(
    r"refused|rejected|Authentication failed|Invalid value|Cannot|cannot", re.IGNORECASE
)
_FAILS_S, _STOP_S = 60.0, 30.0

LISTENER = "SASL"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True)
class Guarded:
    """The broker, what is secret in this test, and the password that the broker knows."""

    cluster: KafkaCluster
    canaries: Canaries
    password: str

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap(LISTENER)

    def login(self, password: str | None = None) -> dict[str, str]:
        """Client properties of the user; `password` None: the right one."""
        given = jaas_quoted(self.password if password is None else password)
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{MODULE} required username="ali" password="{given}";',
        }


def output_of_failure(command: Sequence[str], log: Path) -> str:
    """What a program says that cannot do its work; one that goes on trying is stopped then."""
    with GuardedProcess(command, log) as process:

        def failed() -> bool:
            return not process.running() or _FAILED.search(log.read_text()) is not None

        wait_until(failed, _FAILS_S, f"a failure in {log}")
        process.stop(_STOP_S)
    return log.read_text()
