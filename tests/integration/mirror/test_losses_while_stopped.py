"""What either log lost while no mirror ran is found at the next start, and is in the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.losing import (
    assert_copied_ranges,
    delete_records,
    delete_topic,
    history_losses,
    renew,
)
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import has_topic
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def test_a_loss_that_was_reported_is_not_reported_by_the_next_start(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """Nothing is copied after it, so that no offset is stored."""
    log = logs / "mirror.log"
    target = flow.target_servers
    topic = flow.topic("gone")
    produce(flow.source_servers, topic, numbered(100))
    properties = flow.properties({"mirror.loss.policy.target.recreated": "report"})

    def reports() -> int:
        return sum("ERROR" in line and topic in line for line in log.read_text().splitlines())

    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [100])
        stop_cleanly(mirror, log)
    delete_topic(target, flow.remote(topic))
    wait_until(lambda: not has_topic(target, flow.remote(topic)), TIMEOUT_S, "the copy is gone")
    with running(properties, tmp_path, log) as mirror:
        wait_until(reports, TIMEOUT_S, "the loss is reported")
        stop_cleanly(mirror, log)
    told = reports()
    with running(properties, tmp_path, log) as mirror:
        # Nothing is copied before both logs were compared with what was known of them.
        produce(flow.source_servers, topic, numbered(10, start=100))
        flow.wait_records(topic, [10])
        stop_cleanly(mirror, log)
    assert reports() == told


def test_losses_while_stopped_are_found_at_the_start(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    log = logs / "mirror.log"
    url = f"sqlite:///{tmp_path / 'history.db'}"
    source, target = flow.source_servers, flow.target_servers
    again, gone, trimmed, quiet = (flow.topic(name) for name in ("again", "gone", "trim", "quiet"))
    for topic in (again, gone, trimmed, quiet):
        produce(source, topic, numbered(100))
    properties = flow.properties(
        {
            "mirror.history.url": url,
            "mirror.loss.policy.target.recreated": "copy",
            "mirror.loss.policy.retention": "fail",
        }
    )
    with running(properties, tmp_path, log) as mirror:
        for topic in (again, gone, trimmed, quiet):
            flow.wait_records(topic, [100])
        stop_cleanly(mirror, log)

    delete_topic(target, flow.remote(gone))
    wait_until(lambda: not has_topic(target, flow.remote(gone)), TIMEOUT_S, "the copy is gone")
    renew(source, again)
    produce(source, trimmed, numbered(50, start=100))
    delete_records(source, trimmed, 120)

    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(again, [250])
        flow.wait_records(gone, [100])
        text = f"{trimmed}-0: the source no longer has offsets 100 to 119"
        wait_until(lambda: text in log.read_text(), TIMEOUT_S, "the race is lost")
        stop_cleanly(mirror, log)

    copies = {
        topic: numbers(read_partition(target, flow.remote(topic)))
        for topic in (again, gone, trimmed)
    }
    assert copies[again] == [*range(100), *range(1_000, 1_150)]
    assert copies[gone] == copies[trimmed] == list(range(100))
    assert flow.stored_offsets()[trimmed, 0] == 99
    assert history_losses(url) == {
        (again, "source.recreated", "report", 0, 99, 0),
        (gone, "target.recreated", "copy", 0, 99, 0),
        (trimmed, "retention", "fail", 100, 119, None),
    }
    assert_copied_ranges(url, quiet, 0, 100, records=100)
