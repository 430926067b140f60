"""The broker of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.integration.secrets.broker import LISTENER, MODULE, Guarded
from tests.support.security.canaries import Canaries, jaas_quoted


@pytest.fixture(scope="session")
def guarded(kafka: KafkaRuntime, session_logs: Path) -> Iterator[Guarded]:
    canaries = Canaries()
    password = canaries.awkward("the password of the broker's user")
    prefix = f"listener.name.{LISTENER.lower()}"
    properties = {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": (
            f'{MODULE} required user_ali="{jaas_quoted(password)}";'
        ),
        "log.retention.ms": "-1",
    }
    with KafkaCluster(
        name="canaries",
        kafka=kafka,
        logs=session_logs,
        listeners={LISTENER: "SASL_PLAINTEXT"},
        properties=properties,
    ) as cluster:
        yield Guarded(cluster, canaries, password)
