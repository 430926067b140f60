"""Tracks which partitions of the offset map a task owns, by the notes of the owner in the map
topic.

A task notes that it owns a partition before it writes the first page of it. From then on pages of
earlier sessions do not count, so later writes of a former owner cannot lead to wrong translations
(`map_notes.py`). The task owns the partition once it has read its note in the topic: another note
may have come before it, so that its own does not count. Pure. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.map_notes import NO_OWNER, Owner
from connectors.mirror.offsets.page_index import PageIndex

__all__ = ["MapOwners"]


class MapOwners:
    """The partitions that one task owns, takes over, and has lost."""

    def __init__(self, index: PageIndex) -> None:
        """`index`: knows the owners in the topic."""
        self._index = index
        self._owned: dict[TopicPartition, int] = {}
        """The session of each note of this task that is in force in the topic."""
        self._unread: dict[TopicPartition, int] = {}
        """The session of each acknowledged note of this task that it has not read yet."""
        self._since_read: set[TopicPartition] = set()
        """Partitions whose note was acknowledged since the read began; the read may have ended
        before that."""
        self._taking: set[TopicPartition] = set()
        self._lost: set[TopicPartition] = set()
        self._late: dict[TopicPartition, Sequence[int]] = {}
        """The sessions of others' notes that came too late to count."""

    def read_begins(self) -> None:
        """Note that a read of the topic begins."""
        self._since_read.clear()

    def has_read(
        self,
        owners: Mapping[TopicPartition, int],
        late: Mapping[TopicPartition, Sequence[int]],
        copied: Collection[TopicPartition],
        *,
        stood_still: bool,
    ) -> list[TopicPartition]:
        """Apply the owners that a read found. Returns the partitions to take over again.

        If another task owns a partition of this task, one of the two has lost it. If this task
        was frozen (`stood_still`), it has lost the partition and writes nothing more of it.
        Otherwise the other task has lost it and noticed that late, so this task takes it over.

        A note in the topic that does not count (`late`) is replaced by a new note: compaction would
        keep it as the newest of its key, and then it would count.

        `copied`: the partitions that the task copies.
        """
        before = {key: self._index.owner(key) for key in copied}
        for key, session in owners.items():
            if key not in self._since_read:
                self._index.note_owner(key, session)
        for key, sessions in late.items():
            self._late[key] = sessions
            self._index.note_late_owner(key, max(sessions))
        for key in [key for key in self._unread if key not in self._since_read]:
            self._owned[key] = self._unread.pop(key)
        others = [key for key, session in self._owned.items() if self._index.owner(key) != session]
        for key in others:
            del self._owned[key]
        if stood_still:
            # Without any owner the topic was created again, and nobody has taken the partition.
            unowned = [key for key in others if self._index.owner(key) == NO_OWNER]
            self._lost.update(set(others).difference(unowned))
            # Those that it has not written a page of yet.
            self._lost.update(
                key for key, known in before.items() if self._index.owner(key) != known
            )
            # Compaction removes the notes between: one that does not seem to count may be that of
            # a successor's successor.
            self._lost.update(late.keys() & before.keys())
            return [key for key in unowned if key not in self._lost]
        noted_over = [key for key in late if key in self._owned]
        for key in noted_over:
            del self._owned[key]
        return [*others, *noted_over]

    def forget_late(self) -> None:
        """Drop notes that came too late, because the topic was created again without them."""
        self._late.clear()

    def lost(self, key: TopicPartition) -> bool:
        """Whether another task took the partition while this one stood still."""
        return key in self._lost

    def forget(self, key: TopicPartition) -> None:
        """Drop a partition that left."""
        self._lost.discard(key)

    def begin_anew(self, key: TopicPartition) -> None:
        """Note that the task writes the partition with another session, which needs a note."""
        self._owned.pop(key, None)
        self._unread.pop(key, None)

    def needs_note(self, key: TopicPartition) -> bool:
        """Whether a note is due before the next page of the partition."""
        known = (self._owned, self._unread, self._taking, self._lost)
        return not any(key in each for each in known)

    def take(self, key: TopicPartition, session: int) -> list[Owner]:
        """Return the notes with which the partition is taken over. Its pages wait until the task
        has read them. The last one counts for readers of the whole topic. An earlier one counts for
        readers that find a late note because compaction has removed the owner's note."""
        self._taking.add(key)
        late = self._late.pop(key, ())
        return [Owner(session, before) for before in (*late, self._index.owner(key))]

    @property
    def taking(self) -> bool:
        """Whether notes of the owner are in flight."""
        return bool(self._taking)

    def taken(self, notes: Mapping[TopicPartition, Sequence[Owner]], *, written: bool) -> None:
        """Take the result of writing these notes. Notes that were not written are due again."""
        self._taking.difference_update(notes)
        for key, (*over, owner) in notes.items():
            if not written:
                self._late.setdefault(key, [each.before for each in over])
                continue
            self._unread[key] = owner.session
            self._since_read.add(key)
            self._index.note_owner(key, owner.session)

    @property
    def unread(self) -> bool:
        """Whether written notes of the owner were not read yet."""
        return bool(self._unread)

    def take_as_read(self) -> None:
        """Suppose that the written notes are in force, because the topic cannot be read soon."""
        self._owned.update(self._unread)
        self._unread.clear()
