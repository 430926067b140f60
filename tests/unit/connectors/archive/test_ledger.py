"""The ledger of an archive: what a commit may add, and what is refused."""

from __future__ import annotations

import json

import pytest

from connectors.archive.errors import DamagedArchive, TopicChanged
from connectors.archive.ledger import (
    ArchivedRange,
    ArchivedTopic,
    Commit,
    Ledger,
    data_file,
    version_file,
    version_of,
)
from connectors.archive.survey import check_log

TOPIC = ArchivedTopic("id-of-t", 2, {"retention.ms": "-1"})


def archived(start: int, end: int, *, partition: int = 0, lost: int = 0) -> ArchivedRange:
    """A range of which each third offset has no record."""
    records = (end - start - lost) * 2 // 3
    return ArchivedRange(
        "t",
        partition,
        start,
        end,
        records,
        100 * records,
        0xFEDCBA9876543210,
        lost,
        data_file(("t", partition), start, end) if records else None,
    )


def commit(version: int, *ranges: ArchivedRange) -> Commit:
    return Commit(version, 1_700_000_000_000, ranges, {"t": TOPIC}, {"data/f": "_staging/f"})


def test_a_commit_survives_its_file() -> None:
    written = commit(1, archived(0, 30, lost=9), archived(5, 6, partition=1))
    assert Commit.of_text(written.to_text(), "f") == written
    plain = json.loads(written.to_text())
    assert (plain["ranges"][0]["gaps"], plain["ranges"][0]["lost"]) == (7, 9)


def test_ranges_follow_each_other() -> None:
    ledger = Ledger([commit(1, archived(10, 30)), commit(2, archived(30, 60))])
    assert (ledger.start(("t", 0)), ledger.end(("t", 0))) == (10, 60)
    assert ledger.end(("t", 1)) is None
    assert ledger.files(("t", 0), 29, 31) == [
        data_file(("t", 0), 10, 30),
        data_file(("t", 0), 30, 60),
    ]
    assert ledger.files(("t", 0), 30, 40) == [data_file(("t", 0), 30, 60)]
    assert ledger.files(("t", 0), 60, 90) == []
    assert ledger.has_records(("t", 0), 29, 30)
    assert not ledger.has_records(("t", 0), 60, 90)
    assert not ledger.has_records(("t", 1), 0, 90)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (commit(2, archived(31, 60)), "but 30 is the next one"),
        (commit(2, archived(20, 60)), "but 30 is the next one"),
        (commit(2, archived(30, 30)), "but 30 is the next one"),
        (commit(3, archived(30, 60)), "lacks version 2"),
        (commit(1, archived(30, 60)), "lacks version 2"),
    ],
)
def test_what_does_not_follow_is_refused(wrong: Commit, reason: str) -> None:
    ledger = Ledger([commit(1, archived(0, 30))])
    with pytest.raises(DamagedArchive, match=reason):
        ledger.take(wrong)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a file of the ledger"),
        ("{}", "is not a file of the ledger"),
        ('{"format": 1, "version": 1}', "is not a file of the ledger"),
        ('{"format": 2}', "has format 2"),
    ],
)
def test_a_file_that_is_none_is_named(text: str, reason: str) -> None:
    with pytest.raises(DamagedArchive, match=f"^00.json {reason}"):
        Commit.of_text(text, "00.json")


def test_only_topics_that_are_new_or_changed_are_written() -> None:
    ledger = Ledger([commit(1)])
    grown = ArchivedTopic("id-of-t", 3, {})
    assert ledger.changed({"t": TOPIC}) == {}
    assert ledger.changed({"t": grown, "u": TOPIC}) == {"t": grown, "u": TOPIC}


def test_names_of_versions() -> None:
    assert version_of(version_file(12)) == 12
    assert sorted([version_file(9), version_file(10)]) == [version_file(9), version_file(10)]
    for other in ("_0badc0de", ".00000000000000000001.json.crc", "x.json"):
        assert version_of(other) is None


def test_where_a_partition_goes_on() -> None:
    ledger = Ledger([commit(1, archived(10, 30))])
    assert check_log(("t", 1), 7, 50, ledger) == 7, "nothing is archived: the log's start"
    assert check_log(("t", 0), 0, 50, ledger) == 30
    assert check_log(("t", 0), 40, 50, ledger) == 30, "the lost offsets are part of the range"
    assert check_log(("t", 0), 0, 30, ledger) == 30
    with pytest.raises(TopicChanged, match="ends at 29: the log was truncated"):
        check_log(("t", 0), 0, 29, ledger)
