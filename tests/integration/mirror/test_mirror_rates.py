"""Limits of a flow and of its topics, changed through REST while the tasks run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.limits import (
    BACKLOG,
    EXACTLY_ONCE,
    KB,
    SLOW_RATE,
    WITHOUT,
    assert_throttled,
    produce_backlog,
)
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.flows.worker_flow import worker_flow
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import end_offsets, has_topic
from tests.support.waiting import wait_until


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.mark.parametrize("once", [WITHOUT, pytest.param(EXACTLY_ONCE, marks=pytest.mark.slow)])
def test_a_topics_limit_is_changed_while_tasks_run_and_slows_no_other(
    flow: MirroredFlow, logs: Path, tmp_path: Path, once: str
) -> None:
    slow, free = flow.topic("slow", partitions=2), flow.topic("free", partitions=2)
    # So much that it lasts while the higher rate is looked for.
    long = 3 * BACKLOG
    produce_backlog(flow, slow, records=long)
    produce_backlog(flow, free)
    limits = {"mirror.rate.topics": f"{slow}={SLOW_RATE}kB/s"}
    with worker_flow(flow, logs, tmp_path, once, limits) as running:
        flow.wait_records(free, [BACKLOG, BACKLOG])
        assert running.count(slow) < BACKLOG
        assert 0.3 * SLOW_RATE < running.speed(slow, 3.0) * KB < 1.5 * SLOW_RATE
        assert_throttled(running, slow)

        started = running.starts()
        path = f"/connectors/{running.name}/config"
        faster = {"mirror.rate.topics": f"{slow}={4 * SLOW_RATE}kB/s"}
        running.group.accepted("PATCH", path, faster)

        def at_the_new_rate() -> bool:
            return running.speed(slow, 1.0) * KB > 2.75 * SLOW_RATE

        wait_until(at_the_new_rate, 20.0, "the copy at the new rate")
        without = {k: v for k, v in running.config.items() if not k.startswith("mirror.rate.")}
        running.group.accepted("PUT", path, without)
        flow.wait_records(slow, [long, long])

        def no_trace() -> bool:
            status = running.group.until_running(running.name, tasks=2)
            return not any("trace" in task for task in status["tasks"])

        wait_until(no_trace, 30.0, "statuses without a trace")

        assert running.starts() == started, "a task was started anew, or got others"
        assert running.told("Applied the connector's changed config to running task") == 4
        refused = running.group.call("PATCH", path, {"mirror.rate.bytes": "fast"})
        assert refused.status == 400
        assert "mirror.rate.bytes" in refused.error[1]
    for topic in (slow, free):
        assert_equal_logs(flow, topic)


def test_a_low_limit_starves_no_partition_of_a_task(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """A response at this limit has room for some batches of one partition, and a part of a batch of
    the next one."""
    topic, records = flow.topic("t", partitions=2), 2_000
    for partition in range(2):
        produce(flow.source_servers, topic, numbered(records, partition=partition), batch_records=5)
    low = {"mirror.rate.records": "60", "tasks.max": "1"}
    with worker_flow(flow, logs, tmp_path, WITHOUT, low) as running:

        def both_are_copied() -> bool:
            if not has_topic(flow.target_servers, flow.remote(topic)):
                return False
            return all(end_offsets(flow.target_servers, flow.remote(topic)).values())

        wait_until(both_are_copied, 60.0, "records of both partitions")
        assert running.count(topic) < 2 * records, "the limit was too high to tell"


@pytest.mark.slow
def test_a_flows_limit_is_that_of_all_its_tasks_together(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    topic = flow.topic("t", partitions=4)
    produce_backlog(flow, topic, 4)
    with worker_flow(flow, logs, tmp_path, WITHOUT, {"mirror.rate.bytes": "200kB"}) as running:
        wait_until(lambda: running.count(topic), 30.0, "the first records")
        assert 0.3 * 200 < running.speed(topic, 4.0) * KB < 1.5 * 200
        running.group.accepted(
            "PATCH", f"/connectors/{running.name}/config", {"mirror.rate.bytes": None}
        )
        flow.wait_records(topic, [BACKLOG] * 4)
    assert_equal_logs(flow, topic)


@pytest.mark.slow
def test_a_long_history_does_not_make_live_records_late(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """Also at the flow's limit, which the history takes up."""
    history, live = flow.topic("history", partitions=8), flow.topic("live")
    produce_backlog(flow, history, 8, records=2 * BACKLOG)
    with worker_flow(flow, logs, tmp_path, WITHOUT, {"mirror.rate.bytes": "1MB"}) as running:
        wait_until(lambda: running.count(history), 30.0, "the first records")

        def has(count: int) -> bool:
            return running.count(live) >= count

        ahead = []
        for number in range(8):
            before = running.count(history)
            produce(flow.source_servers, live, numbered(1, start=number))
            wait_until(partial(has, number + 1), 30.0, "the live record")
            ahead.append(running.count(history) - before)
        assert running.count(history) < 16 * BACKLOG, "the history was copied too soon to tell"
        # Of the history, which has 16,000 records, no more than comes in three seconds.
        assert max(ahead) < 3_000, ahead
