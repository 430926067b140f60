"""What the source lost is found where Spark copies, too, at its next start and at the other
engine's; and the history has what was copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.losing import (
    assert_copied_ranges,
    delete_records,
    first_positions,
    history_losses,
    renew,
)
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.spark.flow import ONCE, SPARK, START_S
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
        copy = read_partition(target, flow.remote(topic))
        assert numbers(copy) == [*range(100), *range(1_000, 1_150)]
    assert numbers(read_partition(target, flow.remote(trimmed))) == list(range(100))
    assert flow.stored_offsets()[trimmed, 0] == 99
    assert history_losses(url) == {
        (again, "source.recreated", "report", 0, 99, 0),
        (later, "source.recreated", "report", 0, 99, 0),
        (trimmed, "retention", "fail", 100, 119, None),
    }
    assert_copied_ranges(url, again, 0, 150, records=250)


@pytest.mark.slow
@pytest.mark.parametrize("once", [False, True], ids=["at-least-once", "exactly-once"])
def test_where_a_partition_begins_is_known_before_anything_is_copied(
    once: bool,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    url = f"sqlite:///{tmp_path / 'history.db'}"
    topic = flow.topic()
    spark = flow.properties({**SPARK, **(ONCE if once else {}), "mirror.history.url": url})
    with running(spark, tmp_path, log) as mirror:
        wait_until(lambda: topic in first_positions(flow), START_S, "it is begun")
        mirror.kill()

    produce(flow.source_servers, topic, numbered(100))
    delete_records(flow.source_servers, topic, 40)
    with running(spark, tmp_path, log) as mirror:
        wait_until(lambda: "offsets 0 to 39" in log.read_text(), START_S, "the loss is told")

        def copied() -> bool:
            copy = read_partition(flow.target_servers, flow.remote(topic))
            return numbers(copy) == list(range(40, 100))

        wait_until(copied, START_S, "the rest is copied")
        assert mirror.stop(40.0) == 0
    assert history_losses(url) == {(topic, "retention", "report", 0, 39, 40)}
    assert first_positions(flow) == {}
