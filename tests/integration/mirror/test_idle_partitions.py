"""Partitions with nothing to copy: what becomes of them on the target is seen and shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.mirror.config.losses import LossKind, LossPolicies, LossPolicy
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.copier.copying import CopyRun
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.losing import create_again, delete_topic
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic
from tests.support.waiting import wait_until

COUNT = 100
TIMEOUT_S = 60.0
SOON_S = 30.0
"""A target that is back is seen within seconds; longer, as machines that run tests are busy."""
NOTICE_S = 60.0
"""A topic made anew is noticed within a minute."""


@pytest.fixture
def brittle_target(kafka: KafkaRuntime, logs: Path) -> Iterator[KafkaCluster]:
    """A target that the test stops and starts."""
    with KafkaCluster(name="brittle", kafka=kafka, logs=logs) as cluster:
        yield cluster


def test_after_an_outage_of_the_target_idle_partitions_are_well_before_their_next_record(
    source_cluster: KafkaCluster, brittle_target: KafkaCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, brittle_target.bootstrap_servers
    idle = [create_topic(source, "idle") for _ in range(3)]
    busy = create_topic(source, "busy")
    run = CopyRun(source, target)
    for topic in (*idle, busy):
        produce(source, topic, numbered(COUNT))
        run.add(topic, create_topic(target, name=topic))

    def ill() -> list[str]:
        return [
            f"{topic}: {run.error(topic)}"
            for topic in idle
            if run.error(topic) or run.metrics[topic, 0].read()["stuck"]
        ]

    with run:
        run.wait({(topic, 0): COUNT for topic in (*idle, busy)}, TIMEOUT_S)
        (node,) = brittle_target.nodes
        node.stop()
        produce(source, busy, numbered(10, start=COUNT))
        wait_until(lambda: run.error(busy), TIMEOUT_S, "the busy partition says why")
        node.start()
        run.wait({(busy, 0): COUNT + 10}, TIMEOUT_S)
        wait_until(lambda: not ill(), SOON_S, "idle partitions are well")


@pytest.mark.parametrize("policy", LossPolicy)
def test_a_target_topic_made_anew_while_idle_is_noticed_and_its_policy_obeyed(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, policy: LossPolicy
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(COUNT))
    run = CopyRun(source, target, losses=LossPolicies(policy))
    run.add(topic, copy)

    def copied() -> list[int]:
        return numbers(read_partition(target, copy))

    with run:
        run.wait({(topic, 0): COUNT}, TIMEOUT_S)
        delete_topic(target, copy)
        create_again(target, copy)
        wait_until(lambda: run.losses, NOTICE_S, "it is noticed")
        (loss,) = run.losses
        assert (loss.kind, loss.first, loss.end) == (LossKind.TARGET_RECREATED, 0, COUNT)
        if policy is LossPolicy.COPY:
            wait_until(lambda: len(copied()) == COUNT, TIMEOUT_S, "all is copied anew")
        produce(source, topic, numbered(10, start=COUNT))
        if policy is LossPolicy.FAIL:
            policy_key = "mirror.loss.policy.target.recreated=fail"
            wait_until(lambda: policy_key in (run.error(topic) or ""), TIMEOUT_S, "it stands still")
        else:
            run.wait({(topic, 0): COUNT + 10}, TIMEOUT_S)
    new = range(COUNT, COUNT + 10)
    assert (
        copied()
        == {
            LossPolicy.COPY: [*range(COUNT), *new],
            LossPolicy.REPORT: [*new],
            LossPolicy.FAIL: [],
        }[policy]
    )
    assert len(run.losses) == 1


@pytest.mark.slow
def test_a_target_topic_deleted_while_idle_is_made_and_copied_anew(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """As a user sees it: the mirror itself makes the topic again."""
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(COUNT))
    properties = flow.properties({"mirror.loss.policy": "copy"})
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [COUNT])
        flow.wait_stored(topic, 0, COUNT - 1)
        delete_topic(flow.target_servers, flow.remote(topic))
        flow.wait_records(topic, [COUNT], NOTICE_S)
        stop_cleanly(mirror, log)
    assert numbers(read_partition(flow.target_servers, flow.remote(topic))) == list(range(COUNT))
    assert "was deleted and created again, or has this name" in log.read_text()
