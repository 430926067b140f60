"""A class of one's own creates and changes the topics of a flow (KIP-787)."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka.admin import NewPartitions

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly, topic_configs
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import admin, alter_topic, end_offsets, topic_names
from tests.support.waiting import wait_until

OWN = '''
import json

from connect.errors import ConnectError
from connectors.mirror.topics.forwarding_admin import ForwardingAdmin


class TopicService(ForwardingAdmin):
    """Notes what is asked, refuses topics of others, and gives each topic a mark."""

    def __init__(self, props):
        super().__init__(props)
        self._notes = props["topic.service.notes"]

    def _note(self, *what):
        with open(self._notes, "a") as notes:
            notes.write(json.dumps(what) + "\\n")

    def create_topic(self, name, partitions, replication_factor, configs=None, timeout=60.0):
        self._note("create", name)
        if name.endswith("forbidden"):
            raise ConnectError(f"{name} belongs to another team")
        marked = {**(configs or {}), "segment.ms": "777000"}
        return super().create_topic(name, partitions, replication_factor, marked, timeout)

    def create_partitions(self, name, total, timeout=60.0):
        self._note("partitions", name, total)
        super().create_partitions(name, total, timeout)

    def alter_topic_configs(self, changes, timeout=60.0):
        for name, of_topic in changes.items():
            self._note("configs", name, *((each.name, each.value) for each in of_topic))
        return super().alter_topic_configs(changes, timeout)
'''


def test_topics_partitions_and_configs_go_through_the_class(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    plugins, notes, log = tmp_path / "plugins", tmp_path / "notes", logs / "mirror.log"
    plugins.mkdir()
    (plugins / "topic_service.py").write_text(OWN)
    orders, forbidden = flow.topic("orders"), flow.topic("forbidden")
    for topic in (orders, forbidden):
        produce(flow.source_servers, topic, numbered(10))
    properties = flow.properties(
        {
            "B.plugin.path": str(plugins),
            "forwarding.admin.class": "topic_service:TopicService",
            "A.admin.topic.service.notes": str(notes),
            "B.admin.topic.service.notes": str(notes),
            "config.properties.exclude": "segment.ms",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.configs.enabled": "true",
            "sync.topic.configs.interval.seconds": "1",
        }
    )
    remote = flow.remote(orders)

    def noted(*what: object) -> bool:
        lines = notes.read_text().splitlines() if notes.exists() else []
        return list(what) in [json.loads(line) for line in lines]

    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(orders, [10])
        wait_until(lambda: noted("create", flow.remote(forbidden)), 30, "the other copy is asked")
        client = admin(flow.source_servers)
        client.create_partitions([NewPartitions(orders, 2)])[orders].result(30)
        wait_until(lambda: noted("partitions", remote, 2), 30, "partitions are asked for")
        wait_until(lambda: len(end_offsets(flow.target_servers, remote)) == 2, 30, "2 partitions")
        alter_topic(flow.source_servers, orders, {"retention.ms": "3600000"})
        change = ["retention.ms", "3600000"]
        wait_until(lambda: noted("configs", remote, change), 30, "the changed config is asked for")
        wait_until(
            lambda: topic_configs(flow.target_servers, remote).get("retention.ms") == "3600000",
            30,
            "the changed config",
        )
        stop_cleanly(mirror, log)
    assert topic_configs(flow.target_servers, remote)["segment.ms"] == "777000"
    assert noted("create", flow.syncs_topic)
    assert flow.remote(forbidden) not in topic_names(flow.target_servers)
    text = log.read_text()
    assert f"{flow.remote(forbidden)} belongs to another team" in text
    assert "unknown and has no effect" not in text, "the class may read any key"
