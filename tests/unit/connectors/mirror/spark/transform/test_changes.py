"""What the transformations of a flow mean for its shards."""

from __future__ import annotations

from connectors.mirror.config.source import SourceConfig
from connectors.mirror.copy.range_copier import DRAIN_S
from connectors.mirror.replication_policy import replication_policy
from connectors.mirror.spark.transform.changes import FlowChanges

PROPS = {
    "name": "A->B",
    "connector.class": "MirrorSourceConnector",
    "mirror.engine": "spark",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


def changes(props: dict[str, str]) -> FlowChanges:
    return FlowChanges(SourceConfig.from_properties(props), replication_policy(props))


def test_a_task_whose_result_is_lost_may_transform_before_it_copies() -> None:
    plain = changes(PROPS)
    assert plain.unheard_s > DRAIN_S
    transformed = changes({**PROPS, "mirror.transform": "SELECT * FROM records"})
    # The time that `mirror.transform` has for one shard.
    assert transformed.unheard_s == plain.unheard_s + 30.0
