"""`kafka-consumer-offset-checker` as a process: again and again, with a login, with owners."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from tests.support.flows.mirrormaker1 import offset_checker, offset_rows
from tests.support.properties_files import properties_text
from tests.support.records.groups import commit, member
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, unique
from tests.support.security.secure_listeners import LOGIN, SECRET, sasl_properties
from tests.support.waiting import wait_until

SOON_S, STOP_S = 60.0, 20.0


@pytest.fixture
def source(source_cluster: KafkaCluster) -> str:
    return source_cluster.bootstrap_servers


def test_a_watched_group_is_printed_until_the_signal_with_what_changes(
    source: str, logs: Path
) -> None:
    topic, group, log = create_topic(source), unique("watched"), logs / "checker.log"
    produce(source, topic, numbered(10))
    commit(source, group, {(topic, 0): 4})
    options = ["--bootstrap-server", source, "--group", group, "--topic", topic, "--watch", "0.2"]
    command = [sys.executable, "-P", "-m", "api.cli.offset_checker", *options]

    def shown(*row: str) -> bool:
        return list(row) in [line.split() for line in log.read_text().splitlines()]

    with GuardedProcess(command, log) as checker:
        wait_until(lambda: shown(group, topic, "0", "4", "10", "6", "none"), SOON_S, "a table")
        wait_until(lambda: log.read_text().count("logSize") >= 3, SOON_S, "three tables")
        produce(source, topic, numbered(5, start=10))
        wait_until(lambda: shown(group, topic, "0", "4", "15", "11", "none"), SOON_S, "the new end")
        commit(source, group, {(topic, 0): 15})
        wait_until(lambda: shown(group, topic, "0", "15", "15", "0", "none"), SOON_S, "no lag")
        checker.signal(signal.SIGINT)
        assert checker.wait(STOP_S) == 0
    assert "Traceback" not in log.read_text()


def test_the_owner_is_the_member_that_has_the_partition(source: str) -> None:
    topic, group = create_topic(source, partitions=2), unique("owned")
    produce(source, topic, numbered(3, partition=1))
    with member(source, group, topic):
        rows = offset_rows("--bootstrap-server", source, "--group", group)
    assert [row[:6] for row in rows] == [
        [group, topic, "0", "unknown", "0", "unknown"],
        [group, topic, "1", "unknown", "3", "unknown"],
    ]
    owners = {row[6] for row in rows}
    assert len(owners) == 1
    assert owners != {"none"}


@pytest.fixture(scope="module")
def guarded(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    """A broker with a second listener that wants a login."""
    cluster = KafkaCluster(
        name="checked",
        listeners={"SASL": "SASL_PLAINTEXT"},
        properties=sasl_properties("sasl"),
        kafka=kafka,
        logs=session_logs,
    )
    with cluster:
        yield cluster


@pytest.mark.slow
def test_the_command_config_logs_in(guarded: KafkaCluster, tmp_path: Path) -> None:
    inside, address = guarded.bootstrap_servers, guarded.bootstrap("SASL")
    topic, group = create_topic(inside), unique("guarded")
    produce(inside, topic, numbered(10))
    commit(inside, group, {(topic, 0): 7})
    options = ("--bootstrap-server", address, "--group", group, "--broker-info")

    def with_password(password: str) -> tuple[str, str]:
        path = tmp_path / "client.properties"
        jaas = f'{LOGIN}.plain.PlainLoginModule required username="ali" password="{password}";'
        path.write_text(
            properties_text(
                {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": jaas,
                }
            )
        )
        return ("--command-config", str(path))

    found = offset_checker(*options, *with_password(SECRET))
    assert found.returncode == 0, found.stderr
    lines = [line.split() for line in found.stdout.splitlines()]
    assert [group, topic, "0", "7", "10", "3", "none"] in lines
    assert ["1", "->", address] in lines
    refused = offset_checker(*options, *with_password("mistaken-4711"))
    assert refused.returncode == 2
    assert "uthentication" in refused.stderr
    assert "mistaken-4711" not in refused.stdout + refused.stderr
