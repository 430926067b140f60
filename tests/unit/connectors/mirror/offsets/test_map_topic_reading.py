"""The topic of the offset map is read for the tasks that write to it."""

from __future__ import annotations

import pytest

from connect.clients.librdkafka.topic_log import LogRecord
from connectors.mirror.offsets.map_notes import Note, Owner, note_key
from connectors.mirror.offsets.map_topic_reading import NOTHING_READ, MapTopic, MapTopicReading

T = ("t", 0)


def owners_read(before: MapTopic, *notes: Owner) -> MapTopic:
    """What a read finds that goes on after `before`, and reads these notes of the owner."""
    first = (before.reached or {}).get(0, 0)
    reading = MapTopicReading("map", before)
    for at, note in enumerate(notes, first):
        reading.take(LogRecord(0, at, note_key(Note.OWNER, T), note.encode(), 0))
    return reading.read({0: first + len(notes)})


def test_an_owner_that_names_a_late_note_of_an_earlier_read_counts() -> None:
    first = owners_read(NOTHING_READ, Owner(90), Owner(20))
    assert first.owners == {T: 90}
    assert first.late_owners == {T: [20]}
    then = owners_read(owners_read(first.without_contents()).without_contents(), Owner(50, 20))
    assert then.owners == {T: 50}
    assert then.late_owners == {}


def read_to(before: MapTopic, topic_id: str | None, end: int) -> MapTopic:
    """What a read finds that goes on after `before`, in a topic that ends here, without records."""
    reading = MapTopicReading("map", before)
    reading.of_topic(topic_id)
    return reading.read({0: end})


@pytest.mark.parametrize(
    ("topic_id", "end", "created_again"),
    [("A", 1, False), ("B", 1, True), ("B", 9, True), (None, 9, False), (None, 0, True)],
)
def test_a_topic_that_was_created_again_has_no_owners(
    topic_id: str | None, end: int, created_again: bool
) -> None:
    """It has another id; without ids, it ends before what was read."""
    before = owners_read(NOTHING_READ, Owner(90))._replace(topic_id="A")
    found = read_to(before.without_contents(), topic_id, end)
    assert found.created_again is created_again
    assert found.owners == ({} if created_again else {T: 90})
    assert found.topic_id == (topic_id or "A")


def test_a_late_note_counts_no_more_for_others_once_an_owner_has_come_after_it() -> None:
    found = owners_read(NOTHING_READ, Owner(90), Owner(20), Owner(99, 90), Owner(100, 20))
    assert found.owners == {T: 99}
    assert found.late_owners == {T: [100]}
