"""A mirror takes up what a config provider says once the values that it gave are not valid any
more, without a restart of the process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.security.guarded_flow import COUNT, JAVA_HAS, SOON_S, Guarded, wait_well
from tests.support.security.permissions import authorizing_cluster, forget
from tests.support.security.vault import VaultServer
from tests.support.waiting import wait_until

BEFORE, AFTER = "before", "after"
LEASE_S = 5


@pytest.fixture(scope="module")
def clusters(
    kafka: KafkaRuntime, session_logs: Path
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    made = [
        authorizing_cluster(f"rotating-{side}", (BEFORE, AFTER), kafka, session_logs)
        for side in ("source", "target")
    ]
    with made[0] as source, made[1] as target:
        yield source, target


def test_dedicated_mode_logs_in_with_what_vault_says_after_the_lease(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, listener: str
) -> None:
    guarded, log = Guarded(clusters, BEFORE), logs / "mirror.log"
    flow = guarded.flow
    for guarded.user in (BEFORE, AFTER):
        guarded.grant(JAVA_HAS)
    guarded.user = "${vault:secret/mirror:user}"
    with VaultServer() as vault:
        vault.lease_s = LEASE_S
        vault.secrets["secret/data/mirror"] = {"data": {"user": BEFORE}}
        properties = {
            **guarded.properties(listener),
            "config.providers": "vault",
            "config.providers.vault.class": "VaultConfigProvider",
            "config.providers.vault.param.url": vault.url,
            "config.providers.vault.param.token": "root-token-canary",
        }
        with running(properties, tmp_path, log) as mirror:
            guarded.wait_copied()
            vault.secrets["secret/data/mirror"] = {"data": {"user": AFTER}}
            restarted = f"{flow.a}->{flow.b}: restarted"
            wait_until(lambda: restarted in log.read_text(), SOON_S, "the new user is taken up")
            for cluster in clusters:
                forget(cluster, BEFORE)
            produce(flow.source_servers, guarded.topic, numbered(10, start=COUNT))
            flow.wait_records(guarded.topic, [COUNT + 10], SOON_S)
            wait_well(listener)
            stop_cleanly(mirror, log)
    assert log.read_text().count(restarted) == 1
    assert_equal_logs(flow, guarded.topic)
