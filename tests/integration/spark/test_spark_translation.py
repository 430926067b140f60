"""What Spark translates for all groups at once is what is translated for each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets import partition_pages
from connectors.mirror.offsets.map_notes import Note, Owner, encode_loss, note_key
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_key
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.offset_sync_store import OffsetSyncStore
from connectors.mirror.offsets.translation import best_place
from connectors.mirror.spark.tables import (
    BREAKS,
    CHECKPOINTS,
    GROUP_OFFSETS,
    PAGES,
    SYNCS,
    arrow_schema,
)
from connectors.mirror.spark.translate.kafka_tables import newest_pages, page_records
from connectors.mirror.spark.translate.map_breaks import map_breaks
from connectors.mirror.spark.translate.translate import translate
from connectors.spark.arrow import collect
from tests.support.copier.copied_log import CopiedLog, copied_logs
from tests.support.records.whole_map import WholeMap
from tests.support.spark.session import frame

# A Spark query takes a second, so each example is many partitions, and few are made.
SOME = settings(
    max_examples=3,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
PARTITIONS = 60


@pytest.fixture(scope="module", autouse=True)
def _small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_pages, "PAGE_SEGMENTS", 2)
        yield


class Answer(NamedTuple):
    """What a checkpoint says beside the group and the partition."""

    upstream: int
    downstream: int
    exact: bool
    behind: int
    loss: int


def translated(
    spark: SparkSession, syncs: DataFrame, breaks: DataFrame, offsets: DataFrame
) -> dict[tuple[str, int], Answer]:
    """By partition number and group. Each offset has a group of its own."""
    rows = collect(translate(spark, syncs, breaks, offsets)).to_pylist()
    return {
        (row["group"], row["partition"]): Answer(
            row["upstream"], row["downstream"], row["exact"], row["behind"], row["loss"]
        )
        for row in rows
    }


def all_offsets(spark: SparkSession, ends: Sequence[int]) -> DataFrame:
    rows = [
        (f"g{offset}", "t", number, offset, "")
        for number, end in enumerate(ends)
        for offset in range(end)
    ]
    return frame(spark, GROUP_OFFSETS, rows)


def expected(
    ends: Sequence[int], store: OffsetMapStore, syncs: OffsetSyncStore
) -> dict[tuple[str, int], Answer]:
    known = store.known({("t", number): range(end) for number, end in enumerate(ends)})
    found: dict[tuple[str, int], Answer] = {}
    for number, end in enumerate(ends):
        for offset in range(end):
            sync = syncs.nearest("t", number, offset)
            place = best_place(known.get((("t", number), offset)), sync, offset)
            if place is not None:
                found[f"g{offset}", number] = Answer(offset, *place)
    return found


def no_pages(_: object) -> dict[int, tuple[bytes, bytes | None]]:
    raise AssertionError("all pages are in memory")


sync_lists = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 120)), max_size=12)


@SOME
@given(
    st.lists(copied_logs(java=True, losses=True), min_size=PARTITIONS, max_size=PARTITIONS),
    st.lists(sync_lists, min_size=PARTITIONS, max_size=PARTITIONS),
)
def test_every_offset_is_translated_as_it_would_be_alone(
    spark: SparkSession, logs: list[CopiedLog], syncs: list[list[tuple[int, int]]]
) -> None:
    ends = [len(log.source) + 3 for log in logs]
    kept = OffsetSyncStore()
    kept.finish_loading()
    store = OffsetMapStore(no_pages)
    pages: list[tuple[str, int, int, bytes]] = []
    slots: list[tuple[str, int, int, int, int]] = []
    for number, (log, of_partition) in enumerate(zip(logs, syncs, strict=True)):
        for first, value in log.pages.items():
            store.take(page_key("t", number, first), value, len(pages))
            pages.append(("t", number, first, value))
        for upstream, downstream in of_partition:
            kept.apply(OffsetSync("t", number, upstream, downstream))
        slots += [
            ("t", number, sync.upstream_offset, sync.downstream_offset, -slot)
            for slot, sync in kept.syncs("t", number)
        ]
    answers = translated(
        spark,
        frame(spark, SYNCS, slots),
        map_breaks(frame(spark, PAGES, pages)),
        all_offsets(spark, ends),
    )
    alone = expected(ends, store, kept)
    wrong = {
        key: (alone.get(key), answers.get(key))
        for key in alone.keys() | answers.keys()
        if alone.get(key) != answers.get(key)
    }
    for _, number in list(wrong)[:1]:
        raise AssertionError(
            f"{wrong} differ (alone, in Spark); of these, partition {number} has "
            f"{logs[number].map_pages()} and syncs {syncs[number]}"
        )


@SOME
@given(st.lists(sync_lists, min_size=PARTITIONS, max_size=PARTITIONS))
def test_all_syncs_lead_at_least_as_far_as_those_that_java_keeps(
    spark: SparkSession, syncs: list[list[tuple[int, int]]]
) -> None:
    kept = OffsetSyncStore()
    kept.finish_loading()
    rows = []
    for number, of_partition in enumerate(syncs):
        for order, (upstream, downstream) in enumerate(of_partition):
            kept.apply(OffsetSync("t", number, upstream, downstream))
            rows.append(("t", number, upstream, downstream, order))
    answers = translated(
        spark,
        frame(spark, SYNCS, rows),
        frame(spark, BREAKS, []),
        all_offsets(spark, [75] * PARTITIONS),
    )
    for number in range(PARTITIONS):
        for offset in range(75):
            java = kept.nearest("t", number, offset)
            ours = answers.get((f"g{offset}", number))
            if java is not None:
                assert ours is not None
                assert ours.behind <= max(0, offset - java.upstream_offset - 1)


def test_the_example_of_the_documentation(spark: SparkSession) -> None:
    value = bytes.fromhex(
        "0000000000000000000200000000000000050000000000000" + "0d3020000030100c801"
    )
    pages = frame(spark, PAGES, [("t", 3, 7, value)])
    assert collect(map_breaks(pages)).to_pylist() == [
        {
            "topic": "t",
            "partition": 3,
            "source_start": 0,
            "source_end": 0,
            "target_start": None,
            "gap_target": None,
            "seen_end": -1,
            "loss": 0,
            "syncs_from": 0,
            "syncs_below": 5,
        },
        {
            "topic": "t",
            "partition": 3,
            "source_start": 7,
            "source_end": 10,
            "target_start": 5,
            "gap_target": 8,
            "seen_end": 211,
            "loss": 0,
            "syncs_from": 211,
            "syncs_below": None,
        },
        {
            "topic": "t",
            "partition": 3,
            "source_start": 11,
            "source_end": 211,
            "target_start": 8,
            "gap_target": None,
            "seen_end": 211,
            "loss": 0,
            "syncs_from": 211,
            "syncs_below": None,
        },
    ]


def test_what_the_target_lost_leads_to_what_is_copied_next(spark: SparkSession) -> None:
    """Pages as the mirror writes them, and as earlier versions did, which did not say how far the
    loss reaches: alone, and followed by what was copied then. Older syncs do not count."""
    before = MapPage(1, [Segment(0, 0, 10)])
    told, untold = MapPage(2, [Segment(7, 7, 0)], 10), MapPage(2, [Segment(7, 7, 0)])
    after = MapPage(3, [Segment(10, 7, 5)])
    maps = [[before, told], [before, told, after], [before, untold], [before, untold, after]]
    rows = [
        ("t", number, page.first_source, page.encode())
        for number, pages in enumerate(maps)
        for page in pages
    ]
    breaks = map_breaks(frame(spark, PAGES, rows))
    shown = sorted(
        (row["partition"], row["source_start"], row["source_end"], row["target_start"])
        for row in collect(breaks).to_pylist()
    )
    ends, lost, then = (0, 7, 0), (7, 7, 7), (10, 15, 7)
    assert shown == [
        (number, *row)
        for number, rows_of in enumerate([[ends, lost], [ends, lost, then]] * 2)
        for row in rows_of
    ]
    syncs = frame(spark, SYNCS, [("t", n, at, at, 0) for n in range(4) for at in (8,)])
    answers = translated(spark, syncs, breaks, all_offsets(spark, [13] * 4))
    for number, pages in enumerate(maps):
        alone = WholeMap(pages)
        for offset in range(13):
            answer = answers[f"g{offset}", number]
            assert answer.downstream == alone.downstream(offset), (number, offset)
            assert answer.loss == 2


def test_a_loss_whose_page_was_replaced_is_known_by_its_note(spark: SparkSession) -> None:
    key, page = ("t", 0), MapPage(3, [Segment(0, 0, 10)])
    records = [
        (page_key(*key, 0), MapPage(2, [Segment(0, 0, 0)], 10).encode(), 0),
        (note_key(Note.LOSS, key), encode_loss(2), 1),
        (page_key(*key, 0), page.encode(), 2),
    ]
    table = spark.createDataFrame(records, "key binary, value binary, offset bigint")
    breaks = map_breaks(newest_pages(page_records(table)))
    answers = translated(spark, frame(spark, SYNCS, []), breaks, all_offsets(spark, [13]))
    for offset in range(10):
        assert answers[f"g{offset}", 0] == Answer(offset, offset, True, 0, 2)
    assert answers["g12", 0] == Answer(12, 10, False, 2, 2)


def test_pages_of_a_former_owner_do_not_count(spark: SparkSession) -> None:
    key = ("t", 0)
    late = MapPage(5, [Segment(4, 40, 10)]).encode()
    records = [
        (note_key(Note.OWNER, key), Owner(5).encode(), 0),
        (page_key(*key, 0), MapPage(5, [Segment(0, 0, 4)]).encode(), 1),
        (note_key(Note.OWNER, key), Owner(9, before=5).encode(), 2),
        (note_key(Note.OWNER, key), Owner(20).encode(), 3),  # was on its way for long
        (page_key(*key, 2), MapPage(9, [Segment(2, 6, 8)]).encode(), 4),
        (page_key(*key, 4), late, 5),
        (page_key("u", 0, 4), late, 6),
    ]
    table = spark.createDataFrame(records, "key binary, value binary, offset bigint")
    found = collect(newest_pages(page_records(table)).select("topic", "first_source")).to_pylist()
    kept = {(row["topic"], row["first_source"]) for row in found}
    assert kept == {("t", 0), ("t", 2), ("u", 4)}


def test_a_page_that_is_cut_off_is_named(spark: SparkSession) -> None:
    value = bytes.fromhex("0000" + "0000000000000002" + "0000000000000005" + "00000000000000d3")
    pages = frame(spark, PAGES, [("t", 3, 7, value + bytes.fromhex("02000003"))])
    with pytest.raises(Exception, match="offset map page is truncated: t 3 7"):
        collect(map_breaks(pages))


def test_nothing_known_gives_no_rows_of_the_schema(spark: SparkSession) -> None:
    offsets = frame(spark, GROUP_OFFSETS, [("g", "t", 0, 5, "m")])
    found = collect(translate(spark, frame(spark, SYNCS, []), frame(spark, BREAKS, []), offsets))
    assert found.num_rows == 0
    assert [(field.name, field.type) for field in found.schema] == [
        (field.name, field.type) for field in arrow_schema(CHECKPOINTS)
    ]
