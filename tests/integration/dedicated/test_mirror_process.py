"""The mirror as a process: signals, exit status, its pages, its log, flows that fail alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.properties_files import properties_text
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import end_offset
from tests.support.served import health_of, metric, page
from tests.support.waiting import wait_until

PREFIX = "kafka_connect_mirror_mirrorsourceconnector"


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "mirror.log"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_seconds_with_final_offsets_stored(
    flow: MirroredFlow, log: Path, tmp_path: Path, number: signal.Signals
) -> None:
    topic = flow.topic("t", partitions=2)
    written = threading.Event()
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            batch = [*numbered(200, start=n), *numbered(200, start=n, partition=1)]
            produce(flow.source_servers, topic, batch)
            n += 200
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(30)
        properties = flow.properties({"B.offset.flush.interval.ms": "600000"})
        with running(properties, tmp_path, log) as mirror:
            flow.wait_records(topic, [1_000, 1_000])
            mirror.signal(number)
            assert mirror.wait(60) == 0
    finally:
        stop.set()
        writer.join(60)

    stored = flow.stored_offsets()
    for partition in (0, 1):
        # Nothing is missing and nothing is dropped in between, so the copy's end is its position.
        ends = end_offset(flow.target_servers, flow.remote(topic), partition)
        assert stored[topic, partition] == ends - 1
    with running(properties, tmp_path, log) as mirror:
        counts = [end_offset(flow.source_servers, topic, partition) for partition in (0, 1)]
        flow.wait_records(topic, counts)
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)


def test_a_stop_in_the_middle_of_the_start_is_clean(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    flow.topic()
    with running(flow.properties(), tmp_path, log) as mirror:
        wait_until(lambda: "MirrorMaker" in log.read_text() or log.stat().st_size > 0, 30, "a log")
        stop_cleanly(mirror, log)


def test_metrics_and_health_tell_what_was_copied(
    flow: MirroredFlow, log: Path, tmp_path: Path, listener: str
) -> None:
    topic = flow.topic("t", partitions=2)
    produce(flow.source_servers, topic, numbered(400, size=100), compression="lz4")
    produce(flow.source_servers, topic, numbered(10, partition=1), batch_records=1)
    with running(flow.properties({"metrics.listener": listener}), tmp_path, log) as mirror:
        flow.wait_records(topic, [400, 10])
        labels = {"source": flow.a, "target": flow.b, "topic": flow.remote(topic)}

        def value(name: str, partition: int) -> float:
            found = metric(listener, f"{PREFIX}_{name}", **labels, partition=str(partition))
            assert len(found) == 1, name
            return found[0][1]

        wait_until(lambda: value("record_count", 0) == 400, 30, "400 records counted")
        wait_until(lambda: value("record_lag", 0) == 0, 30, "no lag")
        assert value("byte_count", 0) > 0
        assert value("shallow_record_count", 0) == 400
        assert value("time_lag_ms", 0) == 0
        assert 0 <= value("record_age_ms", 0) < 600_000
        assert 0 <= value("replication_latency_ms", 0) < 600_000
        wait_until(lambda: value("record_count", 1) == 10, 30, "10 records counted")

        def of_task(name: str) -> tuple[str, float]:
            source_task = f"kafka_connect_source_task_source_record_{name}"
            ((tags, count),) = metric(listener, source_task, connector="MirrorSourceConnector")
            return tags["task"], count

        def all_counted() -> bool:
            expected = {"poll_total": 410, "write_total": 410, "active_count": 0}
            return all(of_task(name) == ("0", count) for name, count in expected.items())

        wait_until(all_counted, 30, "what the task polled and wrote")

        wait_until(lambda: value("record_lag", 1) == 0, 30, "no lag")
        health = health_of(listener)
        assert health["status"] == "healthy", health
        (connector,) = (c for c in health["connectors"] if c["name"] == "MirrorSourceConnector")
        assert connector["state"] == "RUNNING"
        (task,) = connector["tasks"]
        assert {p["name"] for p in task["partitions"]} == {f"{topic}-0", f"{topic}-1"}
        assert all(p["error"] is None and p["lag_records"] == 0 for p in task["partitions"])
        stop_cleanly(mirror, log)


def test_a_flow_whose_cluster_is_away_does_not_stop_the_others(
    flow: MirroredFlow, log: Path, tmp_path: Path, listener: str
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(30))
    lease = PortLease(cache_directory() / "ports")
    address = f"{LOOPBACK}:{lease.port}"
    try:
        away = {
            "clusters": f"{flow.a}, {flow.b}, away",
            "away.bootstrap.servers": address,
            f"away->{flow.b}.enabled": "true",
            f"{flow.a}->away.enabled": "true",
            "metrics.listener": listener,
        }
        with running(flow.properties(away), tmp_path, log) as mirror:
            flow.wait_records(topic, [30])
            produce(flow.source_servers, topic, numbered(30, start=30))
            flow.wait_records(topic, [60])
            wait_until(lambda: address in log.read_text(), 30, "a sentence about it")

            def says_it() -> bool:
                health = health_of(listener)
                return health["status"] == "unhealthy" and "away" in health["message"]

            wait_until(says_it, 30, "unhealthy, with the cluster's name")
            stop_cleanly(mirror, log)
    finally:
        lease.close()
    assert_equal_logs(flow, topic)


def test_secrets_of_the_config_are_in_no_log_and_on_no_page(
    flow: MirroredFlow, log: Path, tmp_path: Path, listener: str
) -> None:
    secret = "open-sesame-4711"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(5))
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username=\\"me\\" password=\\"{secret}\\";'
    )
    extra = {
        "metrics.listener": listener,
        # No flow mirrors from it, but heartbeats go there.
        "clusters": f"{flow.a}, {flow.b}, guarded",
        "guarded.bootstrap.servers": flow.source_servers,
        "guarded.security.protocol": "SASL_PLAINTEXT",
        "guarded.sasl.mechanism": "PLAIN",
        "guarded.sasl.jaas.config": jaas,
        f"guarded->{flow.b}.enabled": "true",
        f"{flow.b}.ssl.keystore.password": secret,
        "A->B.producer.override.ssl.key.password": secret,
    }
    with running(flow.properties(extra), tmp_path, log) as mirror:
        flow.wait_records(topic, [5])
        wait_until(lambda: log.read_text().count("guarded") >= 4, 30, "the flow fails to connect")
        pages = [page(listener, "/metrics"), page(listener, "/health")]
        assert mirror.stop(30) == 0
    for text in (log.read_text(), *pages):
        assert secret not in text


def test_dedicated_mode_takes_limits_from_its_file_while_it_runs(
    flow: MirroredFlow, log: Path, tmp_path: Path, listener: str
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(2000, size=1000), batch_records=20)
    rate = f"{flow.a}->{flow.b}.mirror.rate.bytes"
    # It takes minutes to copy all.
    properties = flow.properties({rate: "10kB", "tasks.max": "1", "metrics.listener": listener})

    def write(changes: Mapping[str, str]) -> None:
        merged = {**properties, **changes}
        (tmp_path / "mm2.properties").write_text(properties_text(merged))

    def copied() -> int:
        return end_offset(flow.target_servers, flow.remote(topic))

    def told(text: str) -> int:
        return log.read_text().count(text)

    with running(properties, tmp_path, log) as mirror:
        flow.wait_created(topic)
        wait_until(
            lambda: "because of mirror.rate.bytes" in health_of(listener)["message"],
            30.0,
            "the limit to be told as what holds records back",
        )
        begun = told(" partitions, ")
        write({rate: "fast"})
        wait_until(lambda: told(f"configuration {rate}"), 30.0, "the wrong limit to be told")
        write({rate: "100MB", "metrics.listener": ""})
        wait_until(lambda: told("Restart to apply"), 30.0, "what has to wait to be told")
        assert copied() < 2000, "a limit counts that should not"
        write({rate: "100MB"})
        flow.wait_records(topic, [2000])
        assert told(" partitions, ") == begun, "the task was started anew"
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)
