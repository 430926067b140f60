"""A target whose alias has every character that a URL, a properties file or a pattern gives a
meaning to: the processes of its flow share the work, exactly once, over their internal REST."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from deploy.brokers.ports import LOOPBACK
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import unique

# Topics cannot be named after it: those of the flow that would be have to be on the target.
ALIAS = "B- ._~:/?#[]@!$&'()*+;=\"<>%{}|\\^`618"
TOPICS = 3


def escaped(properties: dict[str, str]) -> dict[str, str]:
    """As a person has to write the keys, and the values, in a properties file."""
    return {
        re.sub(r"([\\:=#! ])", r"\\\1", key): value.replace("\\", "\\\\")
        for key, value in properties.items()
    }


@pytest.mark.parametrize(
    "processes", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["alone", "two"]
)
def test_a_flow_into_a_cluster_with_an_odd_alias_copies_exactly_once(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    processes: int,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster, b=f"{ALIAS}{unique('x')}")
    properties = flow.properties(
        {
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://{LOOPBACK}:0",
            "tasks.max": "2",
            "A.consumer.isolation.level": "read_committed",
            "B.exactly.once.source.support": "enabled",
            "B.scheduled.rebalance.max.delay.ms": "500",
            "A->B.offset-syncs.topic.location": "target",
            "B->A.emit.heartbeats.enabled": "false",
        }
    )
    topics = []
    with ExitStack() as stack:
        started = []
        for number in range(processes):
            log = logs / f"mirror-{number}.log"
            made = running(escaped(properties), tmp_path / str(number), log)
            started.append((stack.enter_context(made), log))
        for number in range(TOPICS):
            topics.append(flow.topic(f"t{number}"))
            produce(flow.source_servers, topics[-1], numbered(10))
            flow.wait_records(topics[-1], [10])
        for process, log in started:
            stop_cleanly(process, log)
    for topic in topics:
        assert_equal_logs(flow, topic)
