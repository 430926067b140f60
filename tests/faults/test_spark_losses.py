"""Where Spark copies, a source log that was cut off and has grown again is noticed, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.losing import history_losses
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.unclean import doubled, elect_uncleanly, in_sync, unclean_cluster
from tests.support.spark.flow import ONCE, SPARK, committed

# Two sessions of Spark.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def unclean(kafka: KafkaRuntime, logs: Path) -> Iterator[KafkaCluster]:
    with unclean_cluster(kafka, logs) as made:
        yield made


@pytest.mark.parametrize("once", [False, True], ids=["at-least-once", "exactly-once"])
def test_a_source_that_lost_records_while_nobody_copied(
    once: bool, unclean: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """Its next offset exists again, so only the epoch of the last copied record tells."""
    flow = MirroredFlow(unclean, target_cluster)
    topic = doubled(unclean, f"{flow.prefix}.cut")
    url, log = f"sqlite:///{tmp_path / 'history.db'}", logs / "mirror.log"
    properties = flow.properties(
        {
            **SPARK,
            **(ONCE if once else {}),
            "mirror.history.url": url,
            # Nodes of the source die.
            "offset-syncs.topic.location": "target",
        }
    )
    produce(flow.source_servers, topic, numbered(50))
    with running(properties, tmp_path, log) as mirror:
        committed(flow, topic, {0: 50})
        unclean.node(3).stop()
        in_sync(unclean, [topic], {2})
        produce(flow.source_servers, topic, numbered(30, start=50))
        committed(flow, topic, {0: 80})
        stop_cleanly(mirror, log)

    unclean.node(2).kill()
    unclean.node(3).start()
    elect_uncleanly(unclean, [topic], 3)
    produce(flow.source_servers, topic, numbered(100, start=1_000))
    with running(properties, tmp_path, log) as mirror:
        committed(flow, topic, {0: 180})
        stop_cleanly(mirror, log)

    copy = read_partition(flow.target_servers, flow.remote(topic), isolation="read_committed")
    assert numbers(copy) == [*range(80), *range(1_000, 1_100)]
    assert history_losses(url) == {(topic, "truncation", "report", 50, 79, 50)}
    assert f"{topic}-0: the source lost offsets 50 to 79" in log.read_text()
