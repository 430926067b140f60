"""Spark reads the syncs and the map itself, and translates as the task does in its own process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from connect.clock import Deadline
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offset_map import MapPage, Segment, page_key
from connectors.mirror.spark_translator import SparkTranslator
from connectors.mirror.translation import Place
from connectors.mirror.translator import GroupOffset, InProcessTranslator, TranslationTopics
from connectors.spark.session import shared_session
from deploy.brokers import KafkaCluster
from tests.support.producing import Record, produce
from tests.support.spark import SPARK
from tests.support.topics import create_topic, unique

COMPACTED = {"cleanup.policy": "compact"}
WAIT_S = 150.0


@pytest.fixture
def topics(source_cluster: KafkaCluster) -> TranslationTopics:
    servers = source_cluster.bootstrap_servers
    return TranslationTopics(
        {"bootstrap.servers": servers, "auto.offset.reset": "latest"},
        create_topic(servers, "syncs", configs=COMPACTED),
        create_topic(servers, "map", configs=COMPACTED),
    )


@pytest.fixture
def translators(
    topics: TranslationTopics, spark: SparkSession
) -> Iterator[tuple[SparkTranslator, InProcessTranslator]]:
    in_spark = SparkTranslator(topics, shared_session().acquire("test", SPARK, kafka=True))
    alone = InProcessTranslator(topics)
    yield in_spark, alone
    in_spark.close(Deadline(WAIT_S))
    alone.close(Deadline(WAIT_S))


def write(topics: TranslationTopics, *records: OffsetSync | tuple[int, MapPage | None]) -> None:
    """Syncs, and pages (None: deleted) of partition 2 of topic `t` by their first offset."""
    servers = topics.properties["bootstrap.servers"]
    for record in records:
        if isinstance(record, OffsetSync):
            produce(servers, topics.syncs, [Record(record.value(), record.key(), 0)])
        else:
            first, page = record
            value = None if page is None else page.encode()
            produce(servers, topics.map, [Record(value, page_key("t", 2, first), 0)])


ASKED = [GroupOffset("g", "t", 2, offset) for offset in range(0, 700, 7)] + [
    GroupOffset("other", "t", 0, 5),
    GroupOffset("other", "ä-topic", 1, 150),
]


def test_both_translators_agree_while_the_topics_grow(
    topics: TranslationTopics, translators: tuple[SparkTranslator, InProcessTranslator]
) -> None:
    in_spark, alone = translators
    write(
        topics,
        OffsetSync("t", 2, 20, 1020),
        OffsetSync("ä-topic", 1, 100, 40),
        (100, MapPage(1, [Segment(100, 300, 50), Segment(151, 350, 100)])),
        (300, MapPage(1, [Segment(300, 500, 5)])),
    )
    alone.open(Deadline(WAIT_S))
    places = in_spark.translate(ASKED, Deadline(WAIT_S))
    assert places == alone.translate(ASKED, Deadline(WAIT_S))
    assert places[0] is None
    assert places[-1] == Place(41, False, 49)
    assert places[20] == Place(340, True)

    assert in_spark.translate(ASKED, Deadline(WAIT_S)) is places

    write(
        topics,
        (300, None),
        (200, MapPage(2, [Segment(200, 600, 400)])),
        OffsetSync("t", 2, 690, 1900),
    )
    later = in_spark.translate(ASKED, Deadline(WAIT_S))
    assert later == alone.translate(ASKED, Deadline(WAIT_S))
    assert later != places


def test_without_topics_nothing_is_known(spark: SparkSession, topics: TranslationTopics) -> None:
    nowhere = TranslationTopics(topics.properties, unique("none"), unique("none"))
    translator = SparkTranslator(nowhere, shared_session().acquire("test", SPARK, kafka=True))
    try:
        assert translator.translate(ASKED[:2], Deadline(WAIT_S)) == [None, None]
    finally:
        translator.close(Deadline(WAIT_S))
