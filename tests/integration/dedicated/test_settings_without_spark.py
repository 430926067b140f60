"""Topic configs follow within seconds of a mirror's start, also where Spark cannot run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigChange
from deploy.brokers import KafkaCluster
from tests.support.flows.bare_connector import configs_set
from tests.support.flows.mirrors import mirror_maker, mm2_properties
from tests.support.records.topics import create_topic
from tests.support.spark.without_spark import without_java, without_pyspark
from tests.support.waiting import wait_until

WAIT_S = 60.0


@pytest.mark.parametrize("lacking", [without_java, without_pyspark])
def test_configs_follow_without_spark(
    lacking: Callable[[Path], dict[str, str]],
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
    logs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = create_topic(servers[0], "t", configs={"retention.ms": "1000"})
    remote = f"source.{topic}"
    properties = mm2_properties(
        *servers,
        {
            "topics": topic,
            "sync.topic.configs.enabled": "true",
            "sync.topic.configs.interval.seconds": "1",
        },
    )
    for name, value in lacking(tmp_path).items():
        if value != os.environ.get(name):
            monkeypatch.setenv(name, value)
    log = logs / "mirror.log"
    source, target = (Admin({"bootstrap.servers": each}) for each in servers)
    try:
        with mirror_maker(properties, tmp_path / "mirror", log):
            wait_until(lambda: remote in target.list_topics(), WAIT_S, "the copy")
            changed = [ConfigChange("retention.bytes", "4096")]
            assert source.alter_topic_configs({topic: changed}) == {}
            wait_until(
                lambda: configs_set(target, remote).get("retention.bytes") == "4096",
                WAIT_S,
                "the changed config",
            )
    finally:
        source.close()
        target.close()
    assert "Config sync of source->target: computed by process: Spark needs" in log.read_text()
