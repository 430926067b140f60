"""A record changed behind a broker's back, as the demo of the audit does it."""

from __future__ import annotations

import pytest

from connect.errors import DataError
from deploy.brokers import KafkaCluster
from deploy.demo.tampering import tamper
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic


def test_a_changed_record_is_read_as_if_it_had_been_written_so(
    target_cluster: KafkaCluster,
) -> None:
    servers = target_cluster.bootstrap_servers
    topic = create_topic(servers, "tampered", partitions=2)
    produce(servers, topic, numbered(50, partition=1))
    before = read_partition(servers, topic, 1)

    data = target_cluster.node(1).directory / "data"
    old, new = tamper(data, topic, 1, 30)

    after = read_partition(servers, topic, 1)
    assert [record.offset for record in after] == list(range(50))
    assert [n for n in range(50) if before[n] != after[n]] == [30]
    assert (before[30].value, after[30].value) == (old, new)
    with pytest.raises(DataError, match="50"):
        tamper(data, topic, 1, 50)
    with pytest.raises(DataError, match="nowhere"):
        tamper(data, "nowhere", 0, 0)
