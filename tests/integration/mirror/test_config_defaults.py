"""Which defaults the configs of copies get (`use.defaults.from`), on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, topic_configs
from tests.support.records.topics import alter_topic
from tests.support.waiting import wait_until

WAIT_S = 60.0
SYNCED = {
    "sync.topic.configs.enabled": "true",
    "sync.topic.configs.interval.seconds": "1",
    "config.properties.exclude": r"delete\\.retention\\..*",
}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_config_that_nobody_set_on_the_source_has_the_chosen_sides_default(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    side: str,
) -> None:
    """What was set by hand on the copy goes, but for what is excluded. The source's default is
    written down on the copy; the target's needs no config."""
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic()
    properties = flow.properties({**SYNCED, "A->B.use.defaults.from": side})
    with running(properties, tmp_path, logs / "mirror.log"):
        remote = flow.wait_created(topic)
        by_hand = {"delete.retention.ms": "2000", "retention.bytes": "2000"}
        alter_topic(flow.target_servers, remote, by_hand)
        expected = {"source": "-1", "target": None}[side]

        def synced() -> bool:
            # A broker may not have heard of what was set yet.
            found = topic_configs(flow.target_servers, remote)
            kept = found.get("delete.retention.ms") == "2000"
            return kept and found.get("retention.bytes") == expected

        wait_until(synced, WAIT_S, f"the {side}'s default, and what is excluded stays")
