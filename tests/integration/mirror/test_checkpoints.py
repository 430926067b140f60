"""Checkpoints: what groups commit on the source is found, translated and written, exactly."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly, topic_configs
from tests.support.records.groups import checkpoints, commit, committed, latest_checkpoints, member
from tests.support.records.losing import history_rows
from tests.support.records.offset_records import mapping
from tests.support.records.producing import numbered, produce, produce_transactions
from tests.support.records.topics import end_offset, unique
from tests.support.spark.flow import START_S
from tests.support.spark.session import SPARK
from tests.support.waiting import wait_until


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "mirror.log"


@pytest.mark.parametrize(
    "min_offsets",
    [
        pytest.param("1000", id="here"),
        pytest.param("0", id="on-spark", marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
    ],
)
def test_groups_are_translated_to_precisely_the_next_record(
    flow: MirroredFlow, log: Path, tmp_path: Path, min_offsets: str
) -> None:
    topic, group = flow.topic("t"), unique(f"{flow.prefix}.g")
    transactions = [(numbered(20, start=100 * n), n % 3 != 1) for n in range(9)]
    produce_transactions(flow.source_servers, topic, transactions)
    end = end_offset(flow.source_servers, topic)
    properties = flow.properties(
        {
            "A.consumer.isolation.level": "read_committed",
            "groups": f"{flow.prefix}.*",
            "A->B.mirror.translation.spark.min.offsets": min_offsets,
            **{f"A->B.{key}": value for key, value in SPARK.items()},
        }
    )
    remote = (flow.remote(topic), 0)
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [120])
        exact = mapping(flow, topic)
        if min_offsets == "0":
            commit(flow.source_servers, group, {(topic, 0): 0})
            # Its session has the lowest priority: whatever else runs on the machine goes first.
            wait_until(
                lambda: "are translated on Spark" in log.read_text(), 2 * START_S, "Spark's work"
            )
        chooser = random.Random(7)
        # Spark is shown to answer; that its answers are the same is tested by themselves.
        positions = sorted(chooser.sample(range(end), 4 if min_offsets != "0" else 1))
        for position in [*positions, end]:
            commit(flow.source_servers, group, {(topic, 0): position}, "note")
            following = [offset for offset in sorted(exact) if offset >= position]
            expected = exact[following[0]] if following else 120
            wait_until(
                lambda: latest_checkpoints(flow, group).get(remote) == (position, expected),  # noqa: B023
                60,
                f"{position} is at {expected}",
            )
        stop_cleanly(mirror, log)
    assert "in this process: Spark is starting" in log.read_text() or min_offsets != "0"
    # confluent-kafka commits the end of the C string along, and it goes along as in Java's mirror.
    noted = [each for each in checkpoints(flow, group) if each.upstream_offset]
    assert {each.metadata for each in noted} == {"note\0"}
    configs = topic_configs(flow.target_servers, f"{flow.a}.checkpoints.internal")
    assert configs == {"cleanup.policy": "compact"}


def test_offsets_of_groups_are_synced_forward_and_not_while_they_run(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic("t")
    remote = (flow.remote(topic), 0)
    new, ahead, running_there, late = (
        f"{flow.prefix}.{n}" for n in ("new", "ahead", "runs", "late")
    )
    produce(flow.source_servers, topic, numbered(100))
    properties = flow.properties(
        {
            "groups": f"{flow.prefix}.*",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
        }
    )
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [100])
        commit(flow.target_servers, ahead, {remote: 50})
        with member(flow.target_servers, running_there, remote[0]):
            positions = {ahead: 20, running_there: 30, new: 10}
            for group, position in positions.items():
                commit(flow.source_servers, group, {(topic, 0): position})

            def precise() -> bool:
                """The first may come before the map, and lead to the second record."""
                return all(
                    latest_checkpoints(flow, group) == {remote: (position, position)}
                    for group, position in positions.items()
                )

            wait_until(precise, 30, "checkpoints of all three groups")
            commit(flow.source_servers, new, {(topic, 0): 11})
            wait_until(lambda: committed(flow.target_servers, new) == {remote: 11}, 30, "new at 11")
            assert committed(flow.target_servers, ahead) == {remote: 50}
            assert committed(flow.target_servers, running_there) == {}
        wait_until(
            lambda: committed(flow.target_servers, running_there) == {remote: 30}, 30, "30, at last"
        )
        stop_cleanly(mirror, log)
    before = checkpoints(flow)

    with running(properties, tmp_path, log) as mirror:
        commit(flow.source_servers, late, {(topic, 0): 77})
        wait_until(lambda: committed(flow.target_servers, late) == {remote: 77}, 30, "late at 77")
        stop_cleanly(mirror, log)
    # What was emitted before the restart is not emitted again.
    assert {each.group for each in checkpoints(flow)[len(before) :]} == {late}


def test_a_topic_gets_checkpoints_with_its_first_copy_and_they_go_back_with_the_group(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    full, empty, group = flow.topic("full"), flow.topic("empty"), f"{flow.prefix}.g"
    produce(flow.source_servers, full, numbered(100))
    copies = {name: (flow.remote(name), 0) for name in (full, empty)}

    def at(topic: str, position: int) -> None:
        """Commit this, and wait until it is translated, exactly."""
        commit(flow.source_servers, group, {(topic, 0): position})
        wait_until(
            lambda: latest_checkpoints(flow, group).get(copies[topic]) == (position, position),
            30,
            f"{group} at {position} of {topic}",
        )

    with running(flow.properties({"groups": f"{flow.prefix}.*"}), tmp_path, log) as mirror:
        flow.wait_records(full, [100])
        flow.wait_created(empty)
        commit(flow.source_servers, group, {(empty, 0): 0})
        at(full, 100)
        assert copies[empty] not in latest_checkpoints(flow, group)
        produce(flow.source_servers, empty, numbered(10))
        flow.wait_records(empty, [10])
        at(empty, 10)
        for position in (90, 10, 95):
            at(full, position)
        stop_cleanly(mirror, log)


def test_a_group_that_moves_to_the_target_and_back_is_in_the_history(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic, group = flow.topic("t"), f"{flow.prefix}.g"
    remote = (flow.remote(topic), 0)
    produce(flow.source_servers, topic, numbered(20))
    url = f"sqlite:///{tmp_path / 'history.db'}"
    properties = flow.properties(
        {
            "groups": f"{flow.prefix}.*",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "mirror.history.url": url,
        }
    )

    def told(kind: str) -> list[tuple[str, str]]:
        return [
            (str(row["connector"]), str(row["action"]))
            for row in history_rows(url, "mirror_events")
            if row["kind"] == kind
        ]

    there, back = (("MirrorCheckpointConnector", f"{way} the target") for way in ("to", "from"))
    with running(properties, tmp_path, log) as mirror:
        commit(flow.source_servers, group, {(topic, 0): 10})
        wait_until(lambda: committed(flow.target_servers, group) == {remote: 10}, 30, "the offset")
        with member(flow.target_servers, group, remote[0]):
            wait_until(lambda: told("moved") == [there], 30, "the failover")
        wait_until(lambda: told("moved") == [there, back], 30, "the failback")
        stop_cleanly(mirror, log)
    assert set(told("task.started")) == {("MirrorSourceConnector", "")}
    assert told("task.stopped") == told("task.started")
