"""Java reads our checkpoints as we do, and either goes on from the other's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connectors.mirror.client import MirrorClient
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.records.groups import checkpoints, commit, latest_checkpoints
from tests.support.records.offset_records import mapping
from tests.support.records.producing import numbered, produce, produce_transactions
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.java import run_java_class

READER = Path(__file__).parents[1] / "golden" / "RemoteOffsets.java"


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def test_javas_client_answers_what_ours_answers(
    kafka: KafkaRuntime, flow: MirroredFlow, tmp_path: Path, logs: Path
) -> None:
    if not kafka.java.with_name("javac").exists():
        pytest.skip("the reader is compiled when it runs, which needs a whole JDK")
    topic = flow.topic("t", partitions=2)
    # As if a third cluster were mirrored to the source, and heartbeats from there.
    far = f"far-{flow.a}"
    for name in (f"{flow.a}.heartbeats", f"{flow.a}.{far}.heartbeats"):
        create_topic(flow.target_servers, name=name)
    groups = {f"{flow.prefix}.g{n}": 7 + 13 * n for n in range(4)}
    produce(flow.source_servers, topic, numbered(100) + numbered(100, partition=1))
    properties = flow.properties({"groups": f"{flow.prefix}.*"})
    log = logs / "mirror.log"
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [100, 100])
        for group, offset in groups.items():
            offsets = {(topic, 0): offset, (topic, 1): offset + 1}
            commit(flow.source_servers, group, offsets, f"of {group}")

        def precise() -> bool:
            """The first may come before the map, and lead to an earlier record."""
            remote = flow.remote(topic)
            return all(
                latest_checkpoints(flow, group)
                == {(remote, n): (offset + n, offset + n) for n in (0, 1)}
                for group, offset in groups.items()
            )

        wait_until(precise, 60, "checkpoints")
        stop_cleanly(mirror, log)

    pattern = re.escape(flow.prefix) + r".*g[0-2]"
    arguments = [flow.target_servers, flow.a, pattern]
    printed = run_java_class(kafka, str(READER), arguments)
    lines = [line.split("\t") for line in printed.splitlines() if line.startswith("=")]
    java = {line[0]: line[1:] for line in lines if line[0] != "=offset"}
    with MirrorClient({"bootstrap.servers": flow.target_servers}) as client:
        found = client.remote_consumer_offsets_matching(re.compile(pattern), flow.a)
        one, *_ = found
        assert client.remote_consumer_offsets(one, flow.a) == found[one]
        assert client.remote_consumer_offsets("none", flow.a) == {}
        assert client.remote_consumer_offsets("none", "nowhere") == {}
        assert sorted(line[1:] for line in lines if line[0] == "=offset") == sorted(
            [group, topic_, str(partition), str(each.offset), each.metadata]
            for group, offsets in found.items()
            for (topic_, partition), each in offsets.items()
        )
        assert {g: offsets[flow.remote(topic), 0].offset for g, offsets in found.items()} == {
            group: offset for group, offset in groups.items() if not group.endswith("3")
        }
        assert java["=hops"] == [str(client.replication_hops(flow.a))] == ["1"]
        assert client.replication_hops(far) == 2
        assert client.replication_hops("nowhere") == -1
        assert {flow.a, far} <= client.upstream_clusters()
        for name, ours in (
            ("=clusters", client.upstream_clusters()),
            ("=heartbeats", client.heartbeat_topics()),
            ("=checkpoints", client.checkpoint_topics()),
            ("=remote", client.remote_topics()),
            ("=from", client.remote_topics(flow.a)),
        ):
            assert java[name] == sorted(ours), name
        assert flow.remote(topic) in client.remote_topics(flow.a)


class Turns:
    """One flow, whose groups Java's mirror and ours translate by turns."""

    def __init__(
        self, kafka: KafkaRuntime, flow: MirroredFlow, directory: Path, logs: Path
    ) -> None:
        self._kafka, self._flow, self._directory, self._logs = kafka, flow, directory, logs
        self.properties = flow.properties(
            {
                "A.consumer.isolation.level": "read_committed",
                "A.consumer.auto.offset.reset": "earliest",
                "groups": f"{flow.prefix}.*",
                "offset.lag.max": "5",
            }
        )

    @contextmanager
    def ours(self, name: str) -> Iterator[None]:
        log = self._logs / f"{name}.log"
        with running(self.properties, self._directory, log) as mirror:
            yield
            stop_cleanly(mirror, log)

    @contextmanager
    def java(self, name: str) -> Iterator[None]:
        log = self._logs / f"{name}.log"
        with java_mirror_maker(self._kafka, self.properties, self._directory, log) as mirror:
            yield
            assert mirror.stop(60) == 128 + 15


def test_java_and_ours_go_on_from_one_anothers_checkpoints(
    kafka: KafkaRuntime, flow: MirroredFlow, tmp_path: Path, logs: Path
) -> None:
    topic, group = flow.topic("t"), unique(f"{flow.prefix}.g")
    key = (flow.remote(topic), 0)
    turns = Turns(kafka, flow, tmp_path, logs)

    def write(start: int) -> None:
        transactions = [(numbered(10, start=start + n), True) for n in range(0, 60, 10)]
        produce_transactions(flow.source_servers, topic, transactions)

    def wait_at(position: int, expected: int | None = None) -> None:
        """Until the group's commit at `position` has a checkpoint: any, or `expected`."""
        commit(flow.source_servers, group, {(topic, 0): position})

        def found() -> bool:
            at, there = latest_checkpoints(flow, group).get(key, (None, None))
            return at == position and expected in (None, there)

        wait_until(found, 60, f"a checkpoint of {position}")

    write(0)
    with turns.ours("ours"):
        flow.wait_records(topic, [60])
        exact = mapping(flow, topic)
        wait_at(41, exact[41])
    ours = checkpoints(flow, group)

    write(60)
    with turns.java("java"):
        flow.wait_records(topic, [120])
        exact = mapping(flow, topic)
        wait_at(95)
    java = checkpoints(flow, group)[len(ours) :]
    assert {each.upstream_offset for each in java} == {95}
    # Java's rule, over our syncs and its own, and not behind what ours emitted.
    by_java = java[-1].downstream_offset
    assert exact[41] < by_java <= exact[95]

    write(120)
    with turns.ours("ours-again"):
        flow.wait_records(topic, [180])
        exact = mapping(flow, topic)
        wait_at(90)
        end = max(exact) + 2  # after the last transaction's marker
        wait_at(end, 180)
    again = checkpoints(flow, group)[len(ours) + len(java) :]
    assert {each.upstream_offset for each in again} - {95} == {90, end}
    there = {each.upstream_offset: each.downstream_offset for each in again}
    # Where Java copied there is no map: the end of ours before, or syncs, are gone by.
    assert 60 <= there[90] <= exact[90]
    # A start reads all syncs anew, of which Java had thinned some out: it may place 95 nearer.
    assert by_java < there.get(95, exact[95]) <= exact[95]
