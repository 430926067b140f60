"""The brokers part keeps its word: data and ports survive a kill, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from deploy.brokers import GuardedProcess, KafkaCluster, KafkaNode, KafkaRuntime, ProcessFailed
from deploy.brokers.cache import CACHE_VARIABLE
from deploy.brokers.properties import CONTROLLER, INTERNAL, render, server_properties
from deploy.brokers.storage import format_storage, random_id
from tests.support.records.producing import (
    COMPRESSIONS,
    Record,
    numbered,
    produce,
    produce_transactions,
)
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic, end_offset, has_topic, topic_names
from tests.support.waiting import wait_until
from tests.support.workers.java import run_java_class


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def leader(servers: str, topic: str) -> int:
    found = AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=10)
    return int(found.topics[topic].partitions[0].leader)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_they_were_produced(
    source_cluster: KafkaCluster, compression: str
) -> None:
    servers = source_cluster.bootstrap_servers
    topic = create_topic(servers)
    sent = [
        Record(
            b"value", b"key", timestamp_ms=1_600_000_000_000, headers=[("h", b"1"), ("h", None)]
        ),
        Record(None, b"tombstone", timestamp_ms=1_600_000_000_001),
        Record(b"", b"", timestamp_ms=1_600_000_000_002),
        Record(None, None, timestamp_ms=1_600_000_000_003),
    ]
    produce(servers, topic, sent, compression=compression)
    read = read_partition(servers, topic)
    assert [(r.key, r.value, r.timestamp_ms, list(r.headers)) for r in read] == [
        (s.key, s.value, s.timestamp_ms, list(s.headers)) for s in sent
    ]
    assert {r.timestamp_type for r in read} == {"CreateTime"}
    assert [r.offset for r in read] == [0, 1, 2, 3]


def test_aborted_transactions_are_in_the_log_but_not_committed(
    source_cluster: KafkaCluster,
) -> None:
    servers = source_cluster.bootstrap_servers
    topic = create_topic(servers)
    produce_transactions(
        servers,
        topic,
        [(numbered(3), True), (numbered(2, start=3), False), (numbered(1, start=5), True)],
    )
    committed = read_partition(servers, topic, isolation="read_committed")
    everything = read_partition(servers, topic)
    assert [r.value for r in committed] == [b"v0", b"v1", b"v2", b"v5"]
    assert [r.value for r in everything] == [b"v0", b"v1", b"v2", b"v3", b"v4", b"v5"]
    assert end_offset(servers, topic) == 6 + 3  # one marker for each transaction


def test_killed_node_restarts_with_its_data_and_port(kafka: KafkaRuntime, logs: Path) -> None:
    with KafkaCluster(kafka=kafka, logs=logs) as cluster:
        servers = cluster.bootstrap_servers
        topic = create_topic(servers)
        produce(servers, topic, numbered(100), compression="lz4")
        before = read_partition(servers, topic)
        node = cluster.node(1)
        node.kill()
        assert not node.running()
        node.start()
        assert cluster.bootstrap_servers == servers
        assert read_partition(servers, topic) == before
        node.stop()
        node.start()
        assert contents(read_partition(servers, topic)) == contents(before)


@pytest.mark.slow
def test_three_nodes_survive_the_loss_of_a_leader(kafka: KafkaRuntime, logs: Path) -> None:
    with KafkaCluster(3, kafka=kafka, logs=logs) as cluster:
        servers = cluster.bootstrap_servers
        assert len(set(servers.split(","))) == 3
        topic = create_topic(servers, replication=3, configs={"min.insync.replicas": "2"})
        produce(servers, topic, numbered(10))
        old = leader(servers, topic)
        cluster.node(old).kill()
        wait_until(lambda: leader(servers, topic) not in (old, -1), 30, "a new leader")
        produce(servers, topic, numbered(10, start=10))
        cluster.node(old).start()
        assert len(read_partition(servers, topic)) == 20


def test_paused_node_does_not_answer_until_resumed(kafka: KafkaRuntime, logs: Path) -> None:
    with KafkaCluster(kafka=kafka, logs=logs) as cluster:
        node = cluster.node(1)
        assert node.pid is not None
        process = psutil.Process(node.pid)
        node.pause()
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, 10, "the pause")
        assert node.running()
        node.resume()
        node.wait_until_ready(30)


def test_broker_properties_and_extra_listeners(kafka: KafkaRuntime, logs: Path) -> None:
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="broker" password="secret" user_alice="wonder\\\\land";'
    )
    properties = {
        "message.max.bytes": "2000",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": jaas,
    }
    with KafkaCluster(
        kafka=kafka, logs=logs, properties=properties, listeners={"SASL": "SASL_PLAINTEXT"}
    ) as cluster:
        topic = create_topic(cluster.bootstrap_servers, "seen-through-sasl")
        client = AdminClient(
            {
                "bootstrap.servers": cluster.bootstrap("SASL"),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "wonder\\land",
            }
        )
        assert topic in client.list_topics(timeout=20).topics
        with pytest.raises(Exception, match="MSG_SIZE_TOO_LARGE"):
            produce(cluster.bootstrap_servers, topic, [Record(b"x" * 5000)])


def test_nothing_is_left_after_close(kafka: KafkaRuntime, logs: Path) -> None:
    cluster = KafkaCluster(kafka=kafka, logs=logs).start()
    pid, directory = cluster.node(1).pid, cluster.node(1).directory
    assert pid is not None
    cluster.close()
    assert not alive(pid)
    assert not directory.parent.exists()
    assert (logs / "kafka-1.log").stat().st_size > 0


OWNER = """
import sys, threading
from pathlib import Path
from deploy.brokers import KafkaCluster
cluster = KafkaCluster(logs=Path(sys.argv[1]))
starter = threading.Thread(target=cluster.start)  # the starting thread ends; the node must not
starter.start(); starter.join()
print(cluster.node(1).pid, cluster.node(1).directory, flush=True)
threading.Event().wait(120)
"""


def test_nothing_outlives_an_owner_that_is_killed(kafka: KafkaRuntime, logs: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(logs)], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid_text, directory = owner.stdout.readline().split()
        pid = int(pid_text)
        assert alive(pid)
        os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), 10, "end of the orphaned node")
    wait_until(lambda: not Path(directory).parent.exists(), 10, "removal of the orphaned data")


def test_a_node_that_cannot_start_says_why(kafka: KafkaRuntime, logs: Path) -> None:
    cluster = KafkaCluster(kafka=kafka, logs=logs, properties={"num.io.threads": "0"})
    with pytest.raises(ProcessFailed, match=r"(?s)node 1.*num\.io\.threads"):
        cluster.start()
    assert cluster.nodes == ()


@pytest.mark.slow
def test_a_port_taken_by_a_stranger_is_replaced(
    kafka: KafkaRuntime, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strangers: list[socket.socket] = []
    launch = KafkaNode.launch

    def lose_the_port(node: KafkaNode) -> None:
        if not strangers:
            strangers.append(socket.create_server(("127.0.0.1", node.ports["PLAINTEXT"])))
        launch(node)

    monkeypatch.setattr(KafkaNode, "launch", lose_the_port)
    with KafkaCluster(kafka=kafka, logs=logs) as cluster, strangers[0] as stranger:
        assert cluster.node(1).ports["PLAINTEXT"] != stranger.getsockname()[1]
        assert topic_names(cluster.bootstrap_servers) == set()


def test_storage_is_formatted_as_by_kafkas_tool(
    kafka: KafkaRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    cluster_id = random_id()
    found: list[tuple[dict[str, str], bytes]] = []
    for node in (1, 2):  # the tool formats the first, and a copy is made for the second
        data = tmp_path / str(node)
        ports = {each: {INTERNAL: 2 * each, CONTROLLER: 2 * each + 1} for each in (1, 2)}
        own = server_properties(node, {INTERNAL: "PLAINTEXT"}, ports, data, {})
        config = tmp_path / f"{node}.properties"
        config.write_text(render(own))
        format_storage(kafka, cluster_id, node, config, data, tmp_path / "log")
        lines = (data / "meta.properties").read_text().splitlines()
        ids = dict(line.split("=") for line in lines if not line.startswith("#"))
        found.append((ids, (data / "bootstrap.checkpoint").read_bytes()))
    (by_tool, features), (by_copy, features_copied) = found
    assert by_copy.keys() == by_tool.keys()
    assert by_copy.pop("directory.id") != by_tool.pop("directory.id")
    assert by_copy == {**by_tool, "node.id": "2"}
    assert features_copied == features


def test_java_tools_run_on_the_same_class_path(
    kafka: KafkaRuntime, source_cluster: KafkaCluster
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    assert has_topic(source_cluster.bootstrap_servers, topic)
    output = run_java_class(
        kafka,
        "org.apache.kafka.tools.TopicCommand",
        ["--bootstrap-server", source_cluster.bootstrap_servers, "--list"],
    )
    assert topic in output.split()


class TestGuardedProcess:
    def test_exit_status_and_output(self, tmp_path: Path) -> None:
        script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
        with GuardedProcess([sys.executable, "-c", script], tmp_path / "log") as process:
            assert process.wait(30) == 7
        assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]

    def test_a_signal_counts_as_128_and_more(self, tmp_path: Path) -> None:
        with GuardedProcess(["sleep", "60"], tmp_path / "log") as process:
            assert process.running()
            assert process.stop(30) == 128 + signal.SIGTERM

    def test_stop_kills_what_ignores_sigterm(self, tmp_path: Path) -> None:
        script = "trap '' TERM; echo ready; while true; do sleep 0.1; done"
        with GuardedProcess(["sh", "-c", script], tmp_path / "log") as process:
            wait_until(lambda: "ready" in (tmp_path / "log").read_text(), 10, "the trap")
            assert process.stop(0.5) == 128 + signal.SIGKILL

    def test_children_of_the_command_go_with_it(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        with GuardedProcess(["sh", "-c", "sleep 60 & echo $!; exit 0"], log) as process:
            assert process.wait(30) == 0
        # The signal was sent; that a process without a parent is gone shows a moment later.
        wait_until(lambda: not alive(int(log.read_text())), 10, "end of the command's child")

    def test_a_command_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ProcessFailed, match=r"Cannot start .*no-such-command"):
            GuardedProcess([str(tmp_path / "no-such-command")], tmp_path / "log")
