"""connect-mirror-maker as a process: flows that start and stop by themselves, heartbeats, pages."""

from __future__ import annotations

import re
import signal
import urllib.request
from pathlib import Path

import pytest

from connectors.mirror.formats import Heartbeat
from deploy.brokers import KafkaCluster
from tests.support.flows.mirrors import mirror_maker, mm2_properties
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic, end_offset, has_topic, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
# More than a stop takes on a busy machine.
STOP_S = 30.0


@pytest.fixture
def source(source_cluster: KafkaCluster) -> str:
    return source_cluster.bootstrap_servers


@pytest.fixture
def target(target_cluster: KafkaCluster) -> str:
    return target_cluster.bootstrap_servers


def properties(source: str, target: str, topic: str, **extra: str) -> dict[str, str]:
    return mm2_properties(
        source,
        target,
        {
            "source->target.topics": topic,
            "metrics.listener": "http://127.0.0.1:0",
            "target->source.emit.heartbeats.enabled": "false",
            **extra,
        },
    )


def test_a_topic_is_mirrored_and_the_process_stops_within_seconds(
    source: str, target: str, tmp_path: Path, logs: Path
) -> None:
    topic = create_topic(source)
    copy = f"source.{topic}"
    produce(source, topic, numbered(500))
    log = logs / "mirror.log"
    with mirror_maker(properties(source, target, topic), tmp_path, log) as mirror:
        wait_until(lambda: has_topic(target, copy), TIMEOUT_S, "creation of the copy")
        wait_until(lambda: end_offset(target, copy) == 500, TIMEOUT_S, "copying of 500 records")
        mirror.signal(signal.SIGINT)
        assert mirror.wait(STOP_S) == 0
    with mirror_maker(properties(source, target, topic), tmp_path, log) as mirror:
        produce(source, topic, numbered(1, start=500))
        wait_until(lambda: end_offset(target, copy) > 500, TIMEOUT_S, "copying of one more")
        assert mirror.stop(STOP_S) == 0
    assert contents(read_partition(target, copy)) == contents(read_partition(source, topic))
    assert "Traceback" not in log.read_text()


def test_heartbeats_arrive_in_javas_bytes(
    source: str, target: str, tmp_path: Path, logs: Path
) -> None:
    before = end_offset(target, "heartbeats") if has_topic(target, "heartbeats") else 0
    with mirror_maker(properties(source, target, "none"), tmp_path, logs / "mirror.log") as mirror:
        wait_until(lambda: has_topic(target, "heartbeats"), TIMEOUT_S, "the heartbeats topic")
        wait_until(
            lambda: end_offset(target, "heartbeats") >= before + 2, TIMEOUT_S, "two heartbeats"
        )
        assert mirror.stop(STOP_S) == 0
    beats = read_partition(target, "heartbeats", start=before)
    assert len(beats) >= 2
    for record in beats:
        assert record.key == bytes.fromhex("0006736f757263650006746172676574")
        assert record.value == Heartbeat("source", "target", record.timestamp_ms).value()
        assert record.headers == ()


def test_metrics_and_health_are_served(
    source: str, target: str, tmp_path: Path, logs: Path
) -> None:
    topic = create_topic(source)
    produce(source, topic, numbered(3))
    log = logs / "mirror.log"
    with mirror_maker(properties(source, target, topic), tmp_path, log):
        said = wait_until(
            lambda: re.findall(r"listening on (http://\S+)", log.read_text()), TIMEOUT_S, "the page"
        )

        def page(path: str) -> str:
            with urllib.request.urlopen(f"{said[0]}{path}", timeout=TIMEOUT_S) as answer:
                return str(answer.read().decode())

        wait_until(lambda: f'topic="source.{topic}"' in page("/metrics"), TIMEOUT_S, "metrics")
        assert '"flow":"source->target"' in page("/health")


@pytest.mark.slow
def test_one_unreachable_flow_does_not_stop_another(
    source: str, target: str, tmp_path: Path, logs: Path
) -> None:
    topic = create_topic(source)
    produce(source, topic, numbered(10))
    gone = {
        "clusters": "source, target, gone",
        "gone.bootstrap.servers": "127.0.0.1:1",
        "source->gone.enabled": "true",
    }
    log = logs / "mirror.log"
    copy = f"source.{topic}"
    with mirror_maker(properties(source, target, topic, **gone), tmp_path, log) as mirror:
        wait_until(lambda: has_topic(target, copy), TIMEOUT_S, "creation of the copy")
        wait_until(lambda: end_offset(target, copy) == 10, TIMEOUT_S, "copying of 10 records")
        wait_until(
            lambda: "Cannot reach cluster gone at 127.0.0.1:1" in log.read_text(),
            TIMEOUT_S,
            "a line that names the cluster that is gone",
        )
        assert mirror.stop(STOP_S) == 0


def test_only_flows_into_the_listed_clusters_run(
    source: str, target: str, tmp_path: Path, logs: Path
) -> None:
    other = unique("other")
    props = {
        "clusters": f"source, {other}",
        "source.bootstrap.servers": source,
        f"{other}.bootstrap.servers": target,
        "metrics.listener": "",
        "heartbeats.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
    }
    log = logs / "mirror.log"
    with mirror_maker(props, tmp_path, log, "--clusters", "source") as mirror:
        wait_until(lambda: f"{other}->source: started" in log.read_text(), TIMEOUT_S, "the start")
        assert mirror.stop(STOP_S) == 0
    assert has_topic(source, f"mm2-offsets.{other}.internal")
    assert f"source->{other} is not enabled" not in log.read_text()
    assert f"source->{other}: started" not in log.read_text()
