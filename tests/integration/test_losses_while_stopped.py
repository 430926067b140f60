"""What either log lost while no mirror ran is found at the next start, and is in the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, select

from connectors.mirror.history_tables import TABLES
from deploy.brokers import KafkaCluster
from tests.faults.test_copy_topics import delete_records, delete_topic
from tests.support.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.producing import numbered, produce
from tests.support.reading import read_partition
from tests.support.topics import create_topic, topic_names
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def rows(url: str, table: str) -> list[dict[str, object]]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            found = connection.execute(select(TABLES.tables[table]))
            return [dict(row._mapping) for row in found]
    finally:
        engine.dispose()


def values(servers: str, topic: str) -> list[int]:
    return [int((record.value or b"v-1")[1:]) for record in read_partition(servers, topic)]


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

    delete_topic(source, again)
    delete_topic(target, flow.remote(gone))
    wait_until(lambda: again not in topic_names(source), TIMEOUT_S, "it is gone")
    wait_until(lambda: flow.remote(gone) not in topic_names(target), TIMEOUT_S, "its copy, too")
    create_topic(source, name=again)
    # So many that the offset that was next exists again: only the topic's id tells.
    produce(source, again, numbered(150, start=1_000))
    produce(source, trimmed, numbered(50, start=100))
    delete_records(source, trimmed, 120)

    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(again, [250])
        flow.wait_records(gone, [100])
        text = f"{trimmed}-0: the source no longer has offsets 100 to 119"
        wait_until(lambda: text in log.read_text(), TIMEOUT_S, "the race is lost")
        stop_cleanly(mirror, log)

    assert values(target, flow.remote(again)) == [*range(100), *range(1_000, 1_150)]
    assert values(target, flow.remote(gone)) == list(range(100))
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
        (gone, "target.recreated", "copy", 0, 99, 0),
        (trimmed, "retention", "fail", 100, 119, None),
    }
    copied = [row for row in rows(url, "mirror_ranges") if row["topic"] == quiet]
    assert (copied[0]["source_start"], copied[-1]["source_end"]) == (0, 100)
    assert sum(int(str(row["records"])) for row in copied) == 100
