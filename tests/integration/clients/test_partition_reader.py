"""A partition is read ahead, fetch by fetch, into buffers that are used again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.partition_reader import PartitionReader
from connect.protocol.record_codec import iter_records
from deploy.brokers import KafkaCluster
from tests.support.copier.copying import wire
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic

RECORDS, ROUNDS = 200, 10
FETCH_BYTES = 4 * 1024


@pytest.fixture
def reader(source_cluster: KafkaCluster) -> Iterator[PartitionReader]:
    servers = source_cluster.bootstrap_servers
    topic = create_topic(servers)
    for number in range(ROUNDS):
        produce(servers, topic, numbered(RECORDS, start=number * RECORDS))
    link = ClusterLink(wire(servers), lambda: None)
    with closing(link):
        link.watch_topics({topic})
        end = RECORDS * ROUNDS
        with closing(PartitionReader(link, (topic, 0), 0, end, fetch_bytes=FETCH_BYTES)) as found:
            yield found


def test_answers_that_are_kept_stay_as_they_were(reader: PartitionReader) -> None:
    kept = list(reader)
    assert len(kept) > 3
    offsets = [
        record.offset
        for fetched in kept
        for header in fetched.headers
        for record in iter_records(fetched.records[header.start : header.start + header.size])
    ]
    assert offsets == list(range(RECORDS * ROUNDS))
    assert len({id(fetched.records.obj) for fetched in kept}) == len(kept)


def test_who_keeps_none_makes_do_with_two_buffers(reader: PartitionReader) -> None:
    answers, buffers, end = 0, set(), 0
    for fetched in reader:
        answers += 1
        buffers.add(id(fetched.records.obj))
        assert fetched.headers[0].base_offset == end
        end = fetched.headers[-1].next_offset
    assert end == RECORDS * ROUNDS
    assert answers > 3
    assert len(buffers) == 2
