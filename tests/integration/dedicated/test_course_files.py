"""Files as courses, blogs and manuals print them, run as printed but for addresses and ports: a
record arrives under the name that the page promises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, has_topic
from tests.support.waiting import wait_until

FILES = Path(__file__).parents[2] / "golden" / "mirror_maker_config"
COUNT = 20
WAIT_S = 90.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair(kafka: KafkaRuntime, session_logs: Path) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Clusters of their own: the files name all topics, and aliases that others use."""
    made = [
        KafkaCluster(name=f"course-{side}", kafka=kafka, logs=session_logs)
        for side in ("first", "second")
    ]
    with made[0] as first, made[1] as second:
        yield first, second


@dataclass(frozen=True)
class Course:
    """A file, its clusters' aliases, what is written to the first, and what appears on the second.
    `back`: a topic of the second, and its name on the first."""

    name: str
    aliases: tuple[str, str]
    topic: str
    copy: str
    left_out: str | None = None
    back: tuple[str, str] | None = None
    arguments: tuple[str, ...] = ()


COURSES = [
    Course("one_way", ("primary", "backup"), "orders-1", "primary.orders-1", "others"),
    Course("one_way", ("primary", "backup"), "users", "primary.users", None, None, ("backup",)),
    Course(
        "both_ways",
        ("kafka-A", "kafka-B"),
        "both",
        "kafka-A.both",
        "mine.internal",
        ("here", "kafka-B.here"),
    ),
    Course("names_kept", ("source", "target"), "kept", "kept", "__hidden"),
    Course(
        "all_but_one",
        ("kafka", "kafka2"),
        "clicks",
        "kafka.clicks",
        None,
        ("recommendations", "kafka2.recommendations"),
    ),
    Course("overrides", ("dc1", "dc2"), "user-events", "dc1_user-events", "elsewhere"),
    Course("brokers_choose", ("cluster-a", "cluster-b"), "chosen", "cluster-a.chosen"),
    Course("other_keys", ("us-west", "us-east"), "topic2", "us-west.topic2", "topic3"),
]


def as_printed(name: str, addresses: dict[str, str]) -> dict[str, str]:
    """The file's lines, with the addresses of the test."""
    text = (FILES / f"course_{name}.properties").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = dict(re.split(r" *= ?", line, maxsplit=1) for line in lines)
    for alias, servers in addresses.items():
        found[f"{alias}.bootstrap.servers"] = servers
    return {**found, "metrics.listener": ""}


def has_records(servers: str, topic: str) -> bool:
    return has_topic(servers, topic) and numbers(read_partition(servers, topic)) == list(
        range(COUNT)
    )


@pytest.mark.parametrize("course", COURSES, ids=lambda each: f"{each.name}-{each.topic}")
def test_a_record_arrives(
    pair: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, course: Course
) -> None:
    first, second = (cluster.bootstrap_servers for cluster in pair)
    for topic in filter(None, (course.topic, course.left_out)):
        create_topic(first, name=topic)
        produce(first, topic, numbered(COUNT))
    if course.back is not None:
        create_topic(second, name=course.back[0])
        produce(second, course.back[0], numbered(COUNT))
    addresses = dict(zip(course.aliases, (first, second), strict=True))
    properties = as_printed(course.name, addresses)
    if course.name == "other_keys":
        # Such pages also have these, which in Java make each of the three connectors copy.
        properties |= {"name": "mirror", "connector.class": "MirrorSourceConnector"}
    clusters = ("--clusters", *course.arguments) if course.arguments else ()
    log = logs / "mirror.log"
    with running(properties, tmp_path, log, *clusters) as mirror:
        wait_until(lambda: has_records(second, course.copy), WAIT_S, f"records of {course.copy}")
        if course.back is not None:
            back = course.back[1]
            wait_until(lambda: has_records(first, back), WAIT_S, f"records of {back}")
        stop_cleanly(mirror, log)
    if course.left_out is not None:
        assert not has_topic(second, f"{course.aliases[0]}.{course.left_out}")
        assert not has_topic(second, course.left_out)
    assert "Traceback" not in log.read_text()
