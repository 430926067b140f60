"""Who owns a partition of the offset map, by the notes that a task reads."""

from __future__ import annotations

import pytest

from connectors.mirror.offsets.map_notes import NO_OWNER, Owner
from connectors.mirror.offsets.map_owners import MapOwners
from connectors.mirror.offsets.page_index import PageIndex

T = ("t", 0)


@pytest.mark.parametrize("stood_still", [False, True])
def test_a_note_that_does_not_seem_to_count_ends_only_a_task_that_stood_still(
    stood_still: bool,
) -> None:
    """Compaction removes the notes between: it may be that of a successor's successor, or that of
    a worker that stood still itself."""
    owners = MapOwners(PageIndex())
    owners.read_begins()
    notes = owners.take(T, 100)
    owners.taken({T: notes}, written=True)
    owners.read_begins()
    assert owners.has_read({T: 100}, {}, [T], stood_still=False) == []

    again = owners.has_read({T: 100}, {T: [300]}, [T], stood_still=stood_still)

    assert again == ([] if stood_still else [T])
    assert owners.lost(T) is stood_still


@pytest.mark.parametrize("stood_still", [False, True])
def test_a_task_takes_its_partitions_over_again_in_a_topic_that_was_created_again(
    stood_still: bool,
) -> None:
    index = PageIndex()
    owners = MapOwners(index)
    owners.taken({T: owners.take(T, 100)}, written=True)
    owners.read_begins()
    owners.has_read({T: 100}, {}, [T], stood_still=False)
    index.forget_all_but({})

    assert owners.has_read({}, {}, [T], stood_still=stood_still) == [T]

    assert not owners.lost(T)
    assert owners.take(T, 101) == [Owner(101, NO_OWNER)]
