"""What the source lost is found where Spark copies, too, at its next start and at the other
engine's; and the history has what was copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.faults.test_copy_topics import delete_records, delete_topic
from tests.integration.test_losses_while_stopped import rows, values
from tests.integration.test_spark_engine import SPARK, START_S
from tests.support.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.producing import numbered, produce
from tests.support.topics import create_topic, topic_names
from tests.support.waiting import wait_until

# Two sessions of Spark.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_losses_while_stopped_are_found_at_the_start(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    url = f"sqlite:///{tmp_path / 'history.db'}"
    source, target = flow.source_servers, flow.target_servers
    again, later, trimmed = (flow.topic(name) for name in ("again", "later", "trim"))
    for topic in (again, later, trimmed):
        produce(source, topic, numbered(100))
    options = {"mirror.history.url": url, "mirror.loss.policy.retention": "fail"}
    spark = flow.properties({**SPARK, **options})
    with running(spark, tmp_path, log) as mirror:
        for topic in (again, later, trimmed):
            flow.wait_records(topic, [100], START_S)
        stop_cleanly(mirror, log)

    renew(source, again)
    produce(source, trimmed, numbered(50, start=100))
    delete_records(source, trimmed, 120)
    with running(spark, tmp_path, log) as mirror:
        flow.wait_records(again, [250], START_S)
        text = f"{trimmed}-0: the source no longer has offsets 100 to 119"
        wait_until(lambda: text in log.read_text(), START_S, "the race is lost")
        stop_cleanly(mirror, log)

    renew(source, later)
    worker = flow.properties({**SPARK, **options, "A->B.mirror.engine": "worker"})
    with running(worker, tmp_path, log) as mirror:
        flow.wait_records(later, [250], START_S)
        stop_cleanly(mirror, log)

    for topic in (again, later):
        assert values(target, flow.remote(topic)) == [*range(100), *range(1_000, 1_150)]
    assert values(target, flow.remote(trimmed)) == list(range(100))
    assert flow.stored_offsets()[trimmed, 0] == 99
    kinds = ("topic", "kind", "action", "first", "last", "resume")
    losses = {
        tuple(row[name] for name in kinds)
        for row in rows(url, "mirror_events")
        if row["kind"] not in ("stuck", "moving")
    }
    assert losses == {
        (again, "source.recreated", "report", 0, 99, 0),
        (later, "source.recreated", "report", 0, 99, 0),
        (trimmed, "retention", "fail", 100, 119, None),
    }
    copied = [row for row in rows(url, "mirror_ranges") if row["topic"] == again]
    assert (copied[0]["source_start"], copied[-1]["source_end"]) == (0, 150)
    assert sum(int(str(row["records"])) for row in copied) == 250


def renew(servers: str, topic: str) -> None:
    """Another topic of this name, with so many records that only its id tells."""
    delete_topic(servers, topic)
    wait_until(lambda: topic not in topic_names(servers), START_S, "it is gone")
    create_topic(servers, name=topic)
    produce(servers, topic, numbered(150, start=1_000))
