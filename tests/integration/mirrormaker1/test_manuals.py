"""The runs that manuals of MirrorMaker 1 print, as printed but for the brokers' addresses.

Sources: the Hortonworks Kafka guide, Kafka's wiki page on MirrorMaker, and the documentation of
Kafka 0.8 to 3.9.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

from deploy.brokers import GuardedProcess, KafkaCluster
from tests.support.flows.mirrormaker1 import offset_checker, offset_rows
from tests.support.flows.mirrors import mirror_maker, mm2_properties
from tests.support.records.groups import committed
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, end_offsets, has_topic
from tests.support.waiting import wait_until

COPY_S, STOP_S = 40.0, 30.0
GROUP = "KafkaMirror"
CONSUMER = """
zk.connect=hdp-1:2181/kafka
zk.connectiontimeout.ms=1000000
consumer.timeout.ms=-1
groupid=KafkaMirror
shallow.iterator.enable=true
mirror.topics.whitelist=app_log
autooffset.reset=smallest
"""
PRODUCER = """
zk.connect=hdp-test-1:2181
producer.type=async
compression.codec=0
serializer.class=kafka.serializer.DefaultEncoder
max.message.size=10000000
queue.time=1000
queue.enqueueTimeout.ms=-1
"""
# Kafka's wiki, and its documentation up to 1.1.
TWO_SOURCES = (
    "--consumer.config sourceCluster1Consumer.config "
    "--consumer.config sourceCluster2Consumer.config "
    "--num.streams 2 --producer.config targetClusterProducer.config --whitelist=.*"
)
# The Hortonworks guide's options.
NO_LOSS = "--abortOnSendFail --num.producers 2 --queue.size 10000 --new.consumer"


def test_two_old_files_mirror_every_topic_but_the_internal_ones(
    three: list[KafkaCluster], tmp_path: Path, logs: Path
) -> None:
    first, second, target = (cluster.bootstrap_servers for cluster in three)
    topics = ((first, "app_log"), (second, "test-topic"))
    for number, (source, topic) in enumerate(topics, start=1):
        create_topic(source, name=topic)
        produce(source, topic, numbered(100))
        (tmp_path / f"sourceCluster{number}Consumer.config").write_text(
            f"{CONSUMER}bootstrap.servers={source}\n"
        )
    (tmp_path / "targetClusterProducer.config").write_text(f"{PRODUCER}broker.list={target}\n")
    command = [sys.executable, "-P", "-m", "api.cli.kafka_mirror_maker"]
    options = [*TWO_SOURCES.split(), *NO_LOSS.split(), "--offset.commit.interval.ms", "500"]

    def is_copied(source: str, topic: str) -> bool:
        return committed(source, GROUP).get((topic, 0)) == 100

    with GuardedProcess([*command, *options], logs / "mm1.log", directory=tmp_path) as mirror:
        for source, topic in topics:
            wait_until(partial(is_copied, source, topic), COPY_S, f"the copy of {topic}")
        check_the_lag(second)
        assert mirror.stop(STOP_S) == 0
    # The groups' commits are on the sources, and nothing of them came here. (A reader makes
    # such a topic, so this is looked at first.)
    assert has_topic(first, "__consumer_offsets")
    assert not has_topic(target, "__consumer_offsets")
    for _, topic in topics:
        assert numbers(read_partition(target, topic, 0)) == list(range(100))
    left = ("--group", GROUP, "--bootstrap-server", second, "--topic", "test-topic")
    assert offset_rows(*left) == [[GROUP, "test-topic", "0", "100", "100", "0", "none"]]


def check_the_lag(servers: str) -> None:
    """The manual's check of a running mirror: the owner is the member that has the partition."""
    found = offset_checker(
        "--group", GROUP, "--bootstrap-server", servers, "--json", "--broker-info"
    )
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    (row,) = document["partitions"]
    assert row.pop("owner").startswith(f"{GROUP}-")
    assert row == {
        "group": GROUP,
        "topic": "test-topic",
        "partition": 0,
        "offset": 100,
        "log_size": 100,
        "lag": 0,
    }
    assert list(document["brokers"].values()) == [servers]


def test_the_checker_shows_a_flow_of_mirrormaker_2(
    three: list[KafkaCluster], tmp_path: Path, logs: Path, listener: str
) -> None:
    source, target = three[0].bootstrap_servers, three[2].bootstrap_servers
    create_topic(source, name="flowed", partitions=2)
    produce(source, "flowed", numbered(30))
    more = {"source->target.topics": "flowed", "metrics.listener": listener}
    flow = ("--config", str(tmp_path / "mm2.properties"), "--topic", "flowed")
    with mirror_maker(mm2_properties(source, target, more), tmp_path, logs / "mm2.log") as mirror:
        expected = ["source->target", "flowed", "0", "30", "30", "0", "source-mm2"]
        wait_until(lambda: expected in offset_rows(*flow), COPY_S, "30 copied records in the table")
        assert mirror.stop(STOP_S) == 0
    produce(source, "flowed", numbered(5, start=30))
    assert end_offsets(source, "flowed")[0] == 35
    assert ["source->target", "flowed", "0", "30", "35", "5", "none"] in offset_rows(*flow)
