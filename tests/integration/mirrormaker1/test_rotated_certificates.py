"""`kafka-mirror-maker` whose clusters, and whose own key and trust stores, get certificates of
another authority: it goes on without a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrormaker1 import Clusters, Run
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.security.rotated import Rotated

WAIT_S = 120.0


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_mirror_goes_on_in_its_group(
    kafka: KafkaRuntime,
    session_logs: Path,
    source_cluster: KafkaCluster,
    tmp_path: Path,
    run: Run,
    side: str,
) -> None:
    """One topic is copied as bytes, the other record by record: keys decide its partitions."""
    (tmp_path / "stores").mkdir()
    rotated = Rotated(tmp_path / "stores", kafka, session_logs)
    with rotated.cluster as cluster:
        pair = (cluster, source_cluster) if side == "source" else (source_cluster, cluster)
        clusters = Clusters(*pair, tmp_path)
        topics = [clusters.topic(copies=1), clusters.topic(copies=2)]
        secure = rotated.properties
        options = clusters.options(
            "--whitelist",
            "|".join(topics),
            consumer=secure if side == "source" else {},
            producer=secure if side == "target" else {},
        )
        process = run(options)
        for start in (0, 100):
            if start:
                rotated.rotate_and_restart()
            for topic in topics:
                produce(clusters.source, topic, numbered(100, start=start))
            for topic in topics:
                clusters.wait_copied(topic, start + 100, WAIT_S)
                clusters.wait_committed(topic, {0: start + 100}, WAIT_S)
        assert process.running()
        for topic, copies in zip(topics, (1, 2), strict=True):
            found = [
                number
                for partition in range(copies)
                for number in numbers(read_partition(clusters.target, topic, partition))
            ]
            assert set(found) == set(range(200))
