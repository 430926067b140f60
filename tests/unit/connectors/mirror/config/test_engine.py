"""Which engine copies a flow and translates its groups."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.mirror.config.checkpoint import CheckpointConfig
from connectors.mirror.config.engine import copies_on_spark
from connectors.mirror.source.connector import MirrorSourceConnector

CLUSTERS = ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"]


@pytest.mark.parametrize("master", CLUSTERS)
def test_spark_copies_a_flow_that_names_a_cluster(master: str) -> None:
    props = {"spark.master": master}
    assert copies_on_spark(props)
    assert copies_on_spark({**props, "mirror.engine": "auto"})
    assert not copies_on_spark({**props, "mirror.engine": "worker"})
    assert MirrorSourceConnector.task_class_for(props).__name__ == "SparkSourceTask"


@pytest.mark.parametrize("props", [{}, {"spark.master": "local[*]"}, {"spark.master": " "}])
def test_workers_copy_where_no_cluster_is_named(props: dict[str, str]) -> None:
    assert not copies_on_spark(props)
    assert copies_on_spark({**props, "mirror.engine": "spark"})
    assert MirrorSourceConnector.task_class_for(props).__name__ == "MirrorSourceTask"


def test_workers_copy_where_a_spark_connect_server_is_named() -> None:
    props = {"spark.remote": "sc://host"}
    assert not copies_on_spark(props)
    assert MirrorSourceConnector.task_class_for(props).__name__ == "MirrorSourceTask"
    with pytest.raises(ConfigError, match=r"cannot run through Spark Connect \(spark.remote=sc://"):
        MirrorSourceConnector.task_class_for({**props, "mirror.engine": "spark"})


@pytest.mark.parametrize(
    ("props", "least"),
    [
        ({}, 50_000),
        ({"spark.master": "local[2]"}, 50_000),
        ({"spark.master": CLUSTERS[0]}, 0),
        ({"spark.remote": "sc://host"}, 0),
        ({"spark.master": CLUSTERS[0], "mirror.translation.spark.min.offsets": "10"}, 10),
    ],
)
def test_spark_translates_all_rounds_of_a_flow_that_names_a_cluster(
    props: dict[str, str], least: int
) -> None:
    flow = {
        "name": "m",
        "connector.class": "MirrorCheckpointConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
    }
    config = CheckpointConfig.from_properties({**flow, **props})
    assert config.mirror_translation_engine == "auto"
    assert config.mirror_translation_spark_min_offsets == least
