"""A task reads the topic of the offset map from its beginning if it was created again."""

from __future__ import annotations

from connectors.mirror.offsets.map_notes import Note, Owner, note_key
from connectors.mirror.offsets.map_topic_reading import NOTHING_READ, MapTopic, PageIndexReader
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_key
from deploy.brokers import KafkaCluster
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic

T = ("t", 0)


def test_a_map_topic_with_another_id_is_read_from_its_beginning(
    target_cluster: KafkaCluster,
) -> None:
    servers = target_cluster.bootstrap_servers
    topic = create_topic(servers, "map", configs={"cleanup.policy": "compact"})
    page = MapPage(5, [Segment(0, 0, 10)]).encode()
    produce(servers, topic, [Record(page, page_key(*T, 0))])
    found: list[MapTopic] = []

    def read(before: MapTopic) -> MapTopic:
        reader = PageIndexReader(topic, {"bootstrap.servers": servers}, found.append, before)
        reader.wait(60.0)
        return found.pop()

    first = read(NOTHING_READ)
    produce(servers, topic, [Record(Owner(9).encode(), note_key(Note.OWNER, T))])
    before = first.without_contents()

    same = read(before)
    assert (same.created_again, same.owners) == (False, {T: 9})
    assert not same.pages

    another = read(before._replace(topic_id="of the former one", owners={T: 4}))
    assert (another.created_again, another.owners) == (True, {T: 9})
    assert another.pages.keys() == {T}
    assert another.topic_id == first.topic_id
