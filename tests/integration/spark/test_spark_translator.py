"""A checkpoint task computes the same in its process and on Spark, whoever reads the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from connect.clients.groups.consumer_groups import Committed
from connect.clock import Deadline
from connect.metrics.registry import MetricRegistry, MetricValue
from connectors.mirror.checkpoints.translation_engine import Engine, EngineSetup, TranslationEngine
from connectors.mirror.formats import Checkpoint, OffsetSync
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_key
from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset, TranslationTopics
from connectors.spark.errors import SparkUnavailable
from connectors.spark.session import SharedSession
from deploy.brokers import KafkaCluster
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic, unique
from tests.support.spark.session import SPARK

COMPACTED = {"cleanup.policy": "compact"}
WAIT_S = 150.0
ONE_CHECKPOINT = {"g": {("A.t", 0): Checkpoint("g", "A.t", 0, 1, 7, "m")}}


@pytest.fixture
def topics(source_cluster: KafkaCluster) -> TranslationTopics:
    servers = source_cluster.bootstrap_servers
    return TranslationTopics(
        {"bootstrap.servers": servers, "auto.offset.reset": "latest"},
        create_topic(servers, "syncs", configs=COMPACTED),
        create_topic(servers, "map", configs=COMPACTED),
    )


def setup(topics: TranslationTopics, engine: Engine, **other: object) -> EngineSetup:
    made = EngineSetup(engine, 0, "test", SPARK, topics, MetricRegistry(), lambda: None)
    return replace(made, **other)  # type: ignore[arg-type]


@pytest.fixture
def engines(
    topics: TranslationTopics, spark: SparkSession
) -> Iterator[Callable[[Engine], TranslationEngine]]:
    made: list[TranslationEngine] = []

    def make(engine: Engine) -> TranslationEngine:
        made.append(TranslationEngine(setup(topics, engine)))
        made[-1].open(Deadline(WAIT_S))
        return made[-1]

    yield make
    for each in made:
        each.close(Deadline(WAIT_S))


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


def test_all_engines_agree_while_the_topics_grow(
    topics: TranslationTopics, engines: Callable[[Engine], TranslationEngine]
) -> None:
    write(
        topics,
        OffsetSync("t", 2, 20, 1020),
        OffsetSync("ä-topic", 1, 100, 40),
        (100, MapPage(1, [Segment(100, 300, 50), Segment(151, 350, 100)])),
        (300, MapPage(1, [Segment(300, 500, 5)])),
    )
    alone, rounds, reading = engines("process"), engines("auto"), engines("spark")
    places = alone.translate(ASKED, Deadline(WAIT_S))
    assert places[0] is None
    assert places[-1] == Place(41, False, 49)
    assert places[20] == Place(340, True)
    for engine in (rounds, reading):
        on_spark = engine.translate(ASKED, Deadline(WAIT_S))
        assert on_spark == places
        assert engine.translate(ASKED, Deadline(WAIT_S)) is on_spark

    write(
        topics,
        (300, None),
        (200, MapPage(2, [Segment(200, 600, 400)])),
        OffsetSync("t", 2, 690, 1900),
    )
    later = alone.translate(ASKED, Deadline(WAIT_S))
    assert later != places
    for engine in (rounds, reading):
        assert engine.translate(ASKED, Deadline(WAIT_S)) == later


def test_without_topics_nothing_is_known_and_without_checkpoints_old_syncs_do_not_count(
    spark: SparkSession, topics: TranslationTopics
) -> None:
    nowhere = TranslationTopics(topics.properties, unique("none"), unique("none"))
    write(topics, OffsetSync("t", 2, 20, 1020), OffsetSync("t", 2, 90, 1090))
    asked = [GroupOffset("g", "t", 2, 50), GroupOffset("g", "t", 2, 90)]
    for where, keep_all, answer in (
        (nowhere, True, [None, None]),
        (topics, False, [None, Place(1090, False)]),
        (topics, True, [Place(1021, False, 29), Place(1090, False)]),
    ):
        engine = TranslationEngine(setup(where, "spark", keep_all_syncs=keep_all))
        try:
            assert engine.translate(asked, Deadline(WAIT_S)) == answer
        finally:
            engine.close(Deadline(WAIT_S))


def test_without_spark_only_the_engine_that_needs_it_waits_and_says_so(
    topics: TranslationTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedSession()
    monkeypatch.setattr("connectors.spark.queries.shared_session", lambda: shared)
    props = {"spark.master": "spark://127.0.0.1:1"}
    write(topics, OffsetSync("t", 2, 20, 1020))
    asked = [GroupOffset("g", "t", 2, 20)]
    waiting = TranslationEngine(setup(topics, "spark", props=props))
    falling_back = TranslationEngine(setup(topics, "auto", props=props))
    falling_back.open(Deadline(WAIT_S))
    try:
        with pytest.raises(SparkUnavailable):
            waiting.translate(asked, Deadline(WAIT_S))
        with pytest.raises(SparkUnavailable):
            waiting.plan_group_offsets({}, {}, {})
        assert falling_back.translate(asked, Deadline(WAIT_S)) == [Place(1020, False)]
        assert falling_back.plan_group_offsets(ONE_CHECKPOINT, {}, {}) == {
            "g": {("A.t", 0): Committed(7, "m")}
        }
        told = {
            sample.tags["job"]: sample.values["status"]
            for sample in waiting.metrics.collect()
            if sample.group == "spark-job-metrics"
        }
        assert told.keys() == {"Checkpoints of test", "Group offset sync of test"}
        assert all(str(text).startswith("waiting for Spark") for text in told.values())
        assert engines_of(waiting) == {"spark"}
        assert engines_of(falling_back) == {"process: Spark is not ready or failed"}
    finally:
        for each in (waiting, falling_back):
            each.close(Deadline(WAIT_S))
        shared.close()
    assert waiting.metrics.collect()[1:] == []


def engines_of(engine: TranslationEngine) -> set[MetricValue]:
    return {job.values["engine"] for job in engine.metrics.collect("spark-job-metrics")}


def test_a_wide_round_now_and_then_starts_no_session_and_three_in_a_row_do(
    topics: TranslationTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedSession()
    monkeypatch.setattr("connectors.spark.queries.shared_session", lambda: shared)
    props = {"spark.master": "spark://127.0.0.1:1"}
    write(topics, OffsetSync("t", 2, 20, 1020))
    engine = TranslationEngine(setup(topics, "auto", props=props, min_offsets=2))
    engine.open(Deadline(WAIT_S))

    def translated(*offsets: int) -> bool:
        """Translate a round; whether it asked for a session."""
        asked = [GroupOffset("g", "t", 2, offset) for offset in offsets]
        places = engine.translate(asked, Deadline(WAIT_S))
        assert [place and place.offset for place in places] == [
            1020 if offset == 20 else 1021 for offset in offsets
        ]
        jobs = [s for s in engine.metrics.collect() if s.group == "spark-job-metrics"]
        return any(str(job.values["status"]).startswith("waiting") for job in jobs)

    try:
        changed, again = (20, 21), (20, 21)
        for offsets in (changed, again, (20, 22), (20, 23)):
            assert not translated(*offsets)
        assert "process: too few large rounds in a row to start Spark" in engines_of(engine)
        assert not translated(20)
        assert not translated(20, 24)
        assert not translated(20, 25)
        assert translated(20, 26)
        assert translated(20, 26), "what was not computed there is asked again"
        assert not translated(20)
    finally:
        engine.close(Deadline(WAIT_S))
        shared.close()
