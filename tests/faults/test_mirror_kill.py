"""kill -9 of the mirror, and of brokers under it: nothing is lost, order is kept, the map is exact.

Under at-least-once a kill may leave a repeated range: what was acknowledged after the last stored
offset is copied again. Nothing else may differ from the source.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.killed_mirrors import (
    PROPERTIES,
    caught_up,
    check,
    make_topics,
    wait_copying,
    wait_rounds,
)
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.steady import SteadyWriter

KILLS = 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_killed_five_times_it_loses_nothing_and_keeps_the_order(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    seed: int,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    draw = random.Random(seed)
    properties = flow.properties({**PROPERTIES, "B.offset.flush.interval.ms": "700"})
    with SteadyWriter(flow.source_servers, *topics) as writer:
        wait_rounds(writer, 10)
        for kill in range(KILLS):
            with running(properties, tmp_path, log) as mirror:
                if kill != 1:  # the second comes in the middle of the start
                    wait_copying(flow, next(iter(topics)))
                time.sleep(draw.uniform(0.0, 1.5))
                assert mirror.running(), log.read_text()
                mirror.kill()
        rounds = writer.rounds

    with running(properties, tmp_path, log) as mirror:
        caught_up(flow, topics)
        stop_cleanly(mirror, log)
    doubled = check(flow, topics, KILLS)
    print(f"{rounds} rounds, {KILLS} kills, {doubled} records copied twice")


@pytest.mark.slow
def test_brokers_killed_on_each_side_lose_nothing_and_double_nothing(
    kafka: KafkaRuntime, logs: Path, tmp_path: Path
) -> None:
    with (
        KafkaCluster(name="fragile-source", kafka=kafka, logs=logs) as source,
        KafkaCluster(name="fragile-target", kafka=kafka, logs=logs) as target,
    ):
        flow = MirroredFlow(source, target)
        log = logs / "mirror.log"
        topics = make_topics(flow)
        with running(flow.properties(PROPERTIES), tmp_path, log) as mirror:
            with SteadyWriter(flow.source_servers, *topics) as writer:
                for cluster in (target, source):
                    wait_rounds(writer, 30)
                    cluster.node(1).kill()
                    # Long enough for requests to fail and connections to be refused.
                    time.sleep(2.0)
                    cluster.restart()
                wait_rounds(writer, 30)
            caught_up(flow, topics)
            stop_cleanly(mirror, log)
        # The mirror lived on, so its producers went on with their sequences: no repetition.
        assert check(flow, topics, 0) == 0
