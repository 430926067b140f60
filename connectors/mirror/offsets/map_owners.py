"""Which partitions of the offset map a task owns, by the notes of the owner in the map topic.

A task notes that it owns a partition before it writes the first page of it. From then on pages of
earlier sessions do not count, so nothing that a former owner still writes can lead groups astray
(`map_notes.py`). Pure. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.map_notes import Owner
from connectors.mirror.offsets.offset_map_trim import PageIndex

__all__ = ["MapOwners"]


class MapOwners:
    """The partitions that one task owns, takes over, and has lost."""

    def __init__(self, index: PageIndex) -> None:
        """`index`: knows the owners in the topic."""
        self._index = index
        self._owned: dict[TopicPartition, int] = {}
        """The session of each acknowledged note of this task."""
        self._since_read: set[TopicPartition] = set()
        """Those that became owned since the read began, which may have ended before."""
        self._taking: set[TopicPartition] = set()
        self._lost: set[TopicPartition] = set()

    def read_begins(self) -> None:
        """Note that a read of the topic begins."""
        self._since_read.clear()

    def has_read(
        self,
        owners: Mapping[TopicPartition, int],
        copied: Collection[TopicPartition],
        *,
        stood_still: bool,
    ) -> list[TopicPartition]:
        """Apply the owners that were read. Returns the partitions to take over again.

        If another task owns a partition of this task, one of the two has lost it. If this task
        was frozen (`stood_still`), it has lost the partition and writes nothing more of it.
        Otherwise the other task has lost it and noticed that late, so this task takes it over.

        `copied`: the partitions that the task copies.
        """
        before = {key: self._index.owner(key) for key in copied}
        for key, session in owners.items():
            if key not in self._since_read:
                self._index.note_owner(key, session)
        others = [key for key, session in self._owned.items() if self._index.owner(key) != session]
        for key in others:
            del self._owned[key]
        if stood_still:
            self._lost.update(others)
            # Those that it has not written a page of yet.
            self._lost.update(
                key for key, known in before.items() if self._index.owner(key) != known
            )
            return []
        return others

    def lost(self, key: TopicPartition) -> bool:
        """Whether another task took the partition while this one stood still."""
        return key in self._lost

    def forget(self, key: TopicPartition) -> None:
        """Drop a partition that left."""
        self._lost.discard(key)

    def begin_anew(self, key: TopicPartition) -> None:
        """Note that the task writes the partition with another session, which needs a note."""
        self._owned.pop(key, None)

    def needs_note(self, key: TopicPartition) -> bool:
        """Whether a note is due before the next page of the partition."""
        return not (key in self._owned or key in self._taking or key in self._lost)

    def take(self, key: TopicPartition, session: int) -> Owner:
        """Return the note with which the partition is taken over. Its pages wait until `taken`."""
        self._taking.add(key)
        return Owner(session, self._index.owner(key))

    @property
    def taking(self) -> bool:
        """Whether notes of the owner are in flight."""
        return bool(self._taking)

    def taken(self, notes: Mapping[TopicPartition, Owner], *, written: bool) -> None:
        """Take the result of writing these notes. Notes that were not written are due again."""
        self._taking.difference_update(notes)
        for key, owner in notes.items() if written else ():
            self._owned[key] = owner.session
            self._since_read.add(key)
            self._index.note_owner(key, owner.session)
