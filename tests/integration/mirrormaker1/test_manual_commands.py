"""Each command line that a manual or a course of MirrorMaker 1 prints, by itself, as printed.

Sources: the documentation of Kafka 0.8 to 3.9, the Hortonworks guide and courses. Only the brokers'
addresses and the group are added to the files, which the manuals name but seldom print.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.brokers import GuardedProcess, KafkaCluster
from tests.support.properties_files import properties_text
from tests.support.records.groups import committed
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import admin, create_topic, topic_names, unique
from tests.support.waiting import wait_until

COPY_S, STOP_S, RECORDS = 60.0, 30.0, 20
CONSUMER = {"auto.offset.reset": "earliest", "metadata.max.age.ms": "1000"}


@dataclass(frozen=True)
class Example:
    """`command`: after the program's name. `sources`: the names of its consumer files. `copied`,
    `left`: topics of each source that come to the target, and that do not."""

    command: str
    copied: Sequence[str]
    left: Sequence[str] = ("another",)
    sources: Sequence[str] = ("consumer.properties",)
    target: str = "producer.properties"
    consumer: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)


EXAMPLES = {
    "two sources": Example(
        "--consumer.config consumer-1.properties --consumer.config consumer-2.properties "
        "--producer.config producer.properties --whitelist my-topic",
        ["my-topic"],
        ["my-topic-2"],
        sources=["consumer-1.properties", "consumer-2.properties"],
    ),
    "one source": Example(
        "--consumer.config consumer.properties --producer.config producer.properties "
        "--whitelist my-topic",
        ["my-topic"],
    ),
    "one of two names": Example(
        "--consumer.config consumer.properties --producer.config producer.properties "
        "--whitelist 'A|B'",
        ["A", "B"],
        ["C", "AB"],
    ),
    "a list with a space": Example(
        "--consumer.config consumer.properties --producer.config producer.properties "
        '--num.streams 2 --whitelist "topic1, topic2"',
        ["topic1", "topic2"],
        ["topic3", "topic1topic2"],
    ),
    "a blacklist": Example(
        "--consumer.config consumer.properties --producer.config producer.properties "
        '--blacklist "private.*,audit"',
        ["orders", "not-private"],
        ["private", "private-2", "audit"],
    ),
    "an exclude list": Example(
        "--consumer.config consumer.properties --producer.config producer.properties "
        "--exclude='private.*'",
        ["orders"],
        ["private-2"],
    ),
    "no loss": Example(
        "--consumer.config sourceClusterConsumer.config --producer.config "
        "targetClusterProducer.config --whitelist mytest --new.consumer "
        "--abort.on.send.failure true --offset.commit.interval.ms 1000",
        ["mytest"],
        sources=["sourceClusterConsumer.config"],
        target="targetClusterProducer.config",
        consumer={"enable.auto.commit": "false"},
        producer={
            "acks": "all",
            "retries": "2147483647",
            "max.block.ms": "9223372036854775807",
            "max.in.flight.requests.per.connection": "1",
        },
    ),
}
SOON = {"two sources", "a list with a space", "a blacklist"}
CASES = [
    pytest.param(example, id=name, marks=[] if name in SOON else [pytest.mark.slow])
    for name, example in EXAMPLES.items()
]


@pytest.fixture
def clean(three: list[KafkaCluster]) -> Iterator[list[KafkaCluster]]:
    """The manuals' examples use the same names."""
    for cluster in three:
        _delete_topics(cluster.bootstrap_servers)
    yield three
    for cluster in three:
        _delete_topics(cluster.bootstrap_servers)


def _topics(servers: str) -> set[str]:
    return {name for name in topic_names(servers) if not name.startswith("__")}


def _delete_topics(servers: str) -> None:
    found = sorted(_topics(servers))
    for deleted in admin(servers).delete_topics(found).values() if found else ():
        deleted.result(COPY_S)
    wait_until(lambda: not _topics(servers), COPY_S, "deletion of the topics")


@pytest.mark.parametrize("example", CASES)
def test_a_manuals_command_copies_what_it_names(
    clean: list[KafkaCluster], example: Example, tmp_path: Path, logs: Path
) -> None:
    *sources, target = (cluster.bootstrap_servers for cluster in clean)
    group = unique("manual")
    used = dict(zip(example.sources, sources, strict=False))
    for number, (name, servers) in enumerate(used.items()):
        for topic in (*example.copied, *example.left):
            create_topic(servers, name=topic)
            produce(servers, topic, numbered(RECORDS, start=number * RECORDS))
        own = {"bootstrap.servers": servers, "group.id": group}
        (tmp_path / name).write_text(properties_text({**CONSUMER, **own, **example.consumer}))
    own = {"bootstrap.servers": target}
    (tmp_path / example.target).write_text(properties_text({**own, **example.producer}))
    program = [sys.executable, "-P", "-m", "api.cli.kafka_mirror_maker"]
    command = [*program, *shlex.split(example.command)]
    total = len(used) * RECORDS

    def copied() -> bool:
        # The first to read a topic would let the broker create it.
        return set(example.copied) <= _topics(target) and all(
            len(read_partition(target, topic)) == total for topic in example.copied
        )

    with GuardedProcess(command, logs / "mm1.log", directory=tmp_path) as mirror:
        wait_until(copied, COPY_S, f"the copies of {example.copied}")
        assert mirror.stop(STOP_S) == 0
    assert _topics(target) == set(example.copied)
    for topic in example.copied:
        assert sorted(numbers(read_partition(target, topic))) == list(range(total))
    for servers in used.values():
        expected = {(topic, 0): RECORDS for topic in example.copied}
        assert committed(servers, group) == expected
