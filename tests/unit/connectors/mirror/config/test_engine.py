"""Which engine copies a flow."""

from __future__ import annotations

import pytest

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
