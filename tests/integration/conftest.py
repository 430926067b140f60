"""Fixtures of tests that run the mirror as a user does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.config.types import SecretStr
from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import PortLease
from tests.support.deployment.postgres import find_postgres, running_postgres


@pytest.fixture(scope="session")
def postgresql() -> Iterator[SecretStr]:
    """The URL of a PostgreSQL server; tests are skipped where none, or no driver, is there."""
    pytest.importorskip("psycopg")
    programs = find_postgres()
    if programs is None:
        pytest.skip("PostgreSQL is not installed here")
    lease = PortLease(cache_directory() / "ports")
    try:
        with running_postgres(programs, lease.port) as url:
            yield url
    finally:
        lease.close()


@pytest.fixture(scope="session")
def permitting_cluster(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    """A broker with an authorizer, where everybody may do everything that no ACL is about."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    cluster = KafkaCluster(name="permitting", properties=properties, kafka=kafka, logs=session_logs)
    with cluster:
        yield cluster
