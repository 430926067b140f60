"""What we commit for a group is, in the broker's own log, what Java's admin client commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.clients.groups.consumer_groups import Committed, ConsumerGroups
from connect.clock import Deadline
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.reading import read_partition
from tests.support.records.topics import admin, create_topic, unique
from tests.support.workers.java import run_java_class

COMMITTER = Path(__file__).parents[1] / "golden" / "CommitOffset.java"
OFFSETS_TOPIC = "__consumer_offsets"
COMPACT_SINCE = 4
"""The first version of the log's values that has compact strings and tagged fields."""


def in_the_log(servers: str, group: str) -> list[bytes]:
    """The values of a group's commits but for the times of the commits."""
    name = len(group).to_bytes(2, "big") + group.encode()
    found = []
    topics = admin(servers).list_topics(OFFSETS_TOPIC, timeout=30).topics
    for partition in topics[OFFSETS_TOPIC].partitions:
        for record in read_partition(servers, OFFSETS_TOPIC, partition):
            key, value = record.key or b"", record.value or b""
            if key[2:].startswith(name) and value:
                found.append(without_time(value))
    return found


def without_time(value: bytes) -> bytes:
    """Version int16, offset int64, leader epoch int32, metadata string, time int64, the rest."""
    if int.from_bytes(value[:2], "big") >= COMPACT_SINCE:
        time_at = 15 + value[14] - 1
    else:
        time_at = 16 + int.from_bytes(value[14:16], "big")
    return value[:time_at] + value[time_at + 8 :]


@pytest.mark.parametrize("metadata", ["note", ""])
def test_a_commit_is_javas_to_the_byte(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, metadata: str
) -> None:
    if not kafka.java.with_name("javac").exists():
        pytest.skip("the committer is compiled when it runs, which needs a whole JDK")
    servers = target_cluster.bootstrap_servers
    topic = create_topic(servers, "commits")
    by_java, by_us = unique("java"), unique("ours")
    run_java_class(kafka, str(COMMITTER), [servers, by_java, topic, "0", "12345", metadata])
    groups = ConsumerGroups({"bootstrap.servers": servers})
    try:
        commits = {by_us: {(topic, 0): Committed(12345, metadata)}}
        assert groups.commit(commits, Deadline(30)) == {}
    finally:
        groups.close()
    java = in_the_log(servers, by_java)
    assert len(java) == 1
    assert in_the_log(servers, by_us) == java
