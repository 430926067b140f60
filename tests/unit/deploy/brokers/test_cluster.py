"""What a cluster is before it starts."""

from __future__ import annotations

import pytest

from deploy.brokers import KafkaCluster


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    ids = {KafkaCluster().cluster_id for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(text) == 22 and not text.startswith("-") for text in ids)


def test_a_cluster_has_a_node() -> None:
    with pytest.raises(ValueError, match="at least 1 node, not 0"):
        KafkaCluster(0)
