"""Brokers before 2.8 also ask for IdempotentWrite on the cluster: without it `--check` and the log
name it, with it and the rows of the table a mirror works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.mirrormaker.check.check import check as checked
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.required_permissions import Feature
from deploy.brokers import OLD_VERSIONS, KafkaCluster, KafkaRuntime, kafka_runtime
from tests.support.flows.mirrored import running, stop_cleanly
from tests.support.security.guarded_flow import JAVA_HAS, OURS, SOON_S, Guarded
from tests.support.security.permissions import authorizing_cluster
from tests.support.security.taken_permissions import log_texts
from tests.support.waiting import wait_until

USER = "old"
FEATURES = JAVA_HAS | OURS
WANTED = "IdempotentWrite on the cluster"


@pytest.fixture(scope="module")
def clusters(
    kafka: KafkaRuntime, session_logs: Path
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """A new source and a target of 2.4."""
    old = kafka_runtime(version=OLD_VERSIONS[0])
    with (
        authorizing_cluster("old-source", [USER], kafka, session_logs) as source,
        authorizing_cluster("old-target", [USER], old, session_logs) as target,
    ):
        yield source, target


@pytest.mark.slow
def test_idempotent_write_is_asked_for_and_named_and_suffices(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path
) -> None:
    guarded, log = Guarded(clusters, USER), logs / "mirror.log"
    extra = {"topics": guarded.topic, "sync.topic.acls.enabled": "false"}
    guarded.grant(FEATURES, extra=extra)
    properties = guarded.properties("", extra)
    config = MirrorMakerConfig.from_properties(properties)

    def about_grants() -> list[str]:
        return [each.text for each in checked(config).findings if "grant " in each.text]

    def only_it_is_missing() -> bool:
        found = about_grants()
        return len(found) == 1 and f"grant {WANTED}" in found[0]

    def named() -> bool:
        """By the copier, and by the producer of heartbeats."""
        told = [text for text in log_texts(log) if "grant " in text and WANTED in text]
        return len({"MirrorHeartbeatConnector-0 failed" in text for text in told}) == 2

    wait_until(only_it_is_missing, SOON_S, "--check to miss only this")
    with running(properties, tmp_path, log):
        wait_until(named, SOON_S, f"the log names it; see {log}")
    guarded.grant({Feature.OLD_BROKERS}, extra=extra)
    wait_until(lambda: not about_grants(), SOON_S, "--check to be content")
    log = logs / "permitted.log"
    with running(properties, tmp_path, log) as mirror:
        guarded.wait_copied()
        guarded.wait_group()
        guarded.wait_heartbeats()
        stop_cleanly(mirror, log)
