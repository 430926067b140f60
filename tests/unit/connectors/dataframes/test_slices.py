"""Tables are cut into slices that name places, never rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.config.types import SecretStr
from connect.errors import ConfigError, ConnectError
from connectors.dataframes.data_source import KafkaMirrorDataSource
from connectors.dataframes.options import FrameFlow
from connectors.dataframes.schemas import SCHEMAS
from connectors.dataframes.tables.history import HistoryTable, RowIds
from connectors.dataframes.tables.lag import SLICE_PARTITIONS, Partitions, cut_topics
from connectors.dataframes.tables.topic_log import SLICE_OFFSETS, InternalTopic, TopicRange, cut
from connectors.mirror.history.database import open_history
from connectors.mirror.history.row_ids import newest_id
from connectors.mirror.history.rows import CopiedRow, FlowTask

ALIASES = {
    "name": "MirrorSourceConnector",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:2",
}


def history_table() -> HistoryTable:
    return HistoryTable("mirror_ranges", SCHEMAS["ranges"].columns.names)


def flow(url: str) -> FrameFlow:
    return FrameFlow("a->b", ALIASES, "offsets", {}, SecretStr(url))


def test_partitions_are_cut_across_topics_and_inside_large_ones() -> None:
    small = [Partitions(f"t{n}", f"a.t{n}", 0, 3) for n in range(4)]
    assert list(cut_topics(small)) == [tuple(small)]
    large = Partitions("large", "a.large", 0, 2 * SLICE_PARTITIONS)
    slices = list(cut_topics([small[0], large]))
    sizes = [sum(part.end - part.start for part in each) for each in slices]
    assert sizes == [SLICE_PARTITIONS, SLICE_PARTITIONS, 3]
    assert slices[1] == (
        Partitions("large", "a.large", SLICE_PARTITIONS - 3, 2 * SLICE_PARTITIONS - 3),
    )


def test_offsets_are_cut_without_gap_or_overlap() -> None:
    end = 2 * SLICE_OFFSETS + 7
    ranges = cut("t", 5, end)
    assert [ranges[0].start, ranges[-1].end] == [5, end]
    assert [each.end for each in ranges[:-1]] == [each.start for each in ranges[1:]]
    assert cut("t", 5, 5) == []


def test_a_stream_reads_what_lies_between_two_offsets() -> None:
    topic = InternalTopic("target", "t")
    assert topic.new_ranges({}, {"0": 3}) == [TopicRange("t", 0, 3)]
    assert topic.new_ranges({"0": 3}, {"0": 9}) == [TopicRange("t", 3, 9)]
    assert topic.new_ranges({"0": 3}, {"0": 3}) == []
    assert history_table().new_slices(flow("none"), {"id": 3}, {"id": 5}) == [RowIds(4, 6)]


def test_a_stream_whose_topic_was_made_anew_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA->B.enabled = true\n"
        "A.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n"
    )
    source = KafkaMirrorDataSource({"path": "checkpoints", "config": str(path)})
    reader = source.streamReader(source.schema())
    for end in ({"0": 2}, {}):
        with pytest.raises(ConnectError, match=r"was re-created\. Start the query with a new ch"):
            reader.partitions({"0": 3}, end)


def test_the_history_is_read_by_row_ids_and_only_the_flows_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'h.db'}"
    table, mine = history_table(), flow(url)
    assert table.slices(mine) == []
    assert table.end(mine) == {}
    assert not (tmp_path / "h.db").exists(), "reading does not create it"
    history = open_history(SecretStr(url), 7)
    assert history is not None
    for number in range(3):
        for other in ("b", "c"):
            row = CopiedRow("t", 0, "a.t", number, number + 1, number + 1, 1, 10)
            history.add(FlowTask("MirrorSourceConnector", 0, "a", other), row)
    history.close()
    (whole,) = table.slices(mine)
    assert (whole.start, whole.end) == (1, 6)
    assert newest_id(SecretStr(url), "mirror_ranges") == 6
    names = SCHEMAS["ranges"].columns.names
    found = [dict(zip(names, row, strict=True)) for row in table.rows(mine, whole)]
    assert [(row["id"], row["target"], row["source_start"]) for row in found] == [
        (1, "b", 0),
        (3, "b", 1),
        (5, "b", 2),
    ]
    assert [row[0] for row in table.rows(mine, RowIds(2, 4))] == [3]
    assert all(row["at"] > 1_600_000_000_000_000 for row in found)


def test_an_executor_without_the_history_file_says_what_to_do(tmp_path: Path) -> None:
    elsewhere = flow(f"sqlite:///{tmp_path / 'h.db'}")
    with pytest.raises(
        ConfigError, match=r"h.db is not on the executor's host .*: set mirror.history.url to a"
    ):
        list(history_table().rows(elsewhere, RowIds(1, 2)))
