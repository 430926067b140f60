"""The pages of the offset map that are in its topic, and which of them are useless.

Useless are pages before the source's log start, and pages of ranges that later sessions copied
again. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.map_notes import NO_OWNER, SESSIONS
from connectors.mirror.offsets.offset_map_pages import PageSpan, page_key

__all__ = ["PageIndex", "anchor", "before_all_lost"]


class PageIndex:
    """The spans of the pages in the topic. Pure; belongs to one thread."""

    def __init__(self) -> None:
        self._pages: dict[TopicPartition, dict[int, PageSpan]] = {}
        self._newest: dict[TopicPartition, int] = {}
        self._losses: dict[TopicPartition, int] = {}
        self._owners: dict[TopicPartition, int] = {}
        self._late_owners: dict[TopicPartition, int] = {}

    def forget_all_but(self, there: Mapping[TopicPartition, Collection[PageSpan]]) -> None:
        """Forget what the topic had, because it was created again. Pages that are `there` again
        stay known. So does the highest session that was seen: later ones are never too low."""
        self._pages = {
            key: {
                span.first_source: span
                for span in spans
                if self.knows(key, span.first_source, span.session, span.first_target)
            }
            for key, spans in there.items()
        }
        self._losses.clear()
        self._owners.clear()
        self._late_owners.clear()

    def note_late_owner(self, key: TopicPartition, session: int) -> None:
        """Note that this session wrote a note of the owner that does not count."""
        self._late_owners[key] = max(session, self._late_owners.get(key, -1))
        self._newest[key] = max(session + SESSIONS - 1, self.newest(key))

    def note_owner(self, key: TopicPartition, session: int) -> None:
        """Note that this session owns a partition, according to the topic."""
        self._owners[key] = session
        self._newest[key] = max(session + SESSIONS - 1, self.newest(key))

    def owner(self, key: TopicPartition) -> int:
        """Return the first session of a partition's owner; `NO_OWNER` if none is known."""
        return self._owners.get(key, NO_OWNER)

    def note_loss(self, key: TopicPartition, session: int) -> None:
        """Note that this session wrote a loss page, according to the topic."""
        self._losses[key] = max(session, self._losses.get(key, -1))
        self._newest[key] = max(session, self._newest.get(key, -1))

    def add(self, key: TopicPartition, span: PageSpan) -> None:
        """Add or replace a page that is in the topic."""
        self._newest[key] = max(span.session, self._newest.get(key, -1))
        if not self.is_late(key, span):
            self._pages.setdefault(key, {})[span.first_source] = span

    def remove(self, key: TopicPartition, first_source: int) -> None:
        """Remove a page that was deleted from the topic."""
        self._pages.get(key, {}).pop(first_source, None)

    def is_late(self, key: TopicPartition, span: PageSpan) -> bool:
        """Whether the page was written late (`PageSpan.is_late`)."""
        return span.is_late(self._pages.get(key, {}).get(span.first_source))

    def knows(
        self, key: TopicPartition, first_source: int, session: int = -1, target: int = -1
    ) -> bool:
        """Whether a page with this first source offset is known; if given, with this session and
        first target offset."""
        known = self._pages.get(key, {}).get(first_source)
        if known is None or session < 0:
            return known is not None
        return (known.session, known.first_target) == (session, target)

    def span(self, key: TopicPartition, first_source: int) -> PageSpan | None:
        """The page with this first source offset, as far as is known."""
        return self._pages.get(key, {}).get(first_source)

    def has_losses(self, key: TopicPartition) -> bool:
        """Whether the target ever lost records of a partition, as far as is known."""
        return key in self._losses or any(span.lost for span in self.spans(key))

    def newest(self, key: TopicPartition) -> int:
        """Return the highest session that was seen for a partition; -1 if there was none."""
        return self._newest.get(key, -1)

    def newest_noted(self, key: TopicPartition) -> int:
        """Return the highest session in the notes, or that the owner may have begun."""
        owner = max(self._owners.get(key, NO_OWNER), self._late_owners.get(key, NO_OWNER))
        known = self._losses.get(key, -1)
        return known if owner == NO_OWNER else max(known, owner + SESSIONS - 1)

    def spans(self, key: TopicPartition) -> Collection[PageSpan]:
        """Return a partition's pages."""
        return self._pages.get(key, {}).values()

    def reach(self, key: TopicPartition) -> int:
        """Return the source offset up to which any page of a partition covers the source."""
        return max((span.end_source for span in self._pages.get(key, {}).values()), default=0)

    def useless(self, key: TopicPartition, log_start: int) -> list[bytes]:
        """Remove the pages that cover nothing at or after `log_start`. Returns their record keys,
        for tombstones.

        A page that a later session overrides is kept until that session has copied as far, because
        until then it shows which older syncs are invalid. A page before the log start is kept while
        an older page that it overrides reaches further. The last page before the log start is also
        kept: it shows where the target continues, up to the next page.
        """
        pages = self._pages.get(key, {})
        gone = _useless(pages.values(), log_start, self._losses.get(key, -1))
        for first in gone:
            del pages[first]
        return [page_key(key[0], key[1], first) for first in gone]

    def needed(self, key: TopicPartition, former: Collection[PageSpan], log_start: int) -> set[int]:
        """Return the first source offsets of the former pages that would still be needed if they
        were in the topic."""
        there = {span.first_source: span for span in former} | self._pages.get(key, {})
        gone = _useless(there.values(), log_start, self._losses.get(key, -1))
        return {span.first_source for span in former}.difference(gone)


def anchor(pages: Iterable[PageSpan], target: int) -> tuple[int, int] | None:
    """Return (source, target) of the start of the last page that starts at or before this target
    offset, which the target still has. If all pages start after it: the source offset at which the
    first page starts, and the target offset, because nothing is known of earlier offsets."""
    found: tuple[int, int] | None = None
    end = target
    first: int | None = None
    lost_from: int | None = None
    for span in sorted(pages, reverse=True):
        first = span.first_source if first is None else min(first, span.first_source)
        holds = lost_from is None or span.first_source < lost_from
        if holds and span.first_target <= end and (found is None or found[1] < span.first_target):
            found = span.first_source, span.first_target
        if span.lost:
            end = min(end, span.first_target - 1)
            lost_from = (
                span.first_source if lost_from is None else min(lost_from, span.first_source)
            )
    if found is None and first is not None:
        return first, target
    return found


def before_all_lost(
    pages: Iterable[PageSpan],
    target: int,
    place: tuple[int, int],
    known: tuple[int, int] | None = None,
) -> tuple[int, int]:
    """Return `place`, or an earlier one: a range that was copied twice is in two places, and the
    target may have lost the later copy from its first source offset on, and of the earlier copy
    only what follows `place`. `target`: the offset from which on everything is lost. `known`:
    another place that is known on both sides."""
    spans = list(pages)
    losses = [span for span in spans if span.lost]
    # An earlier loss had these already.
    there = [
        span
        for span in spans
        if not span.lost
        and not any(
            loss.session > span.session and loss.first_source <= span.first_source
            for loss in losses
        )
    ]
    first = min((span.first_source for span in there if span.first_target >= target), default=None)
    if first is None or first >= place[0]:
        return place
    kept = [
        (span.first_target, span.first_source)
        for span in there
        if span.first_source <= first and span.first_target < target
    ]
    if known is not None and known[0] <= first and known[1] <= target:
        kept.append((known[1], known[0]))
    if not kept:
        return first, place[1]
    its_target, source = max(kept)
    return source, its_target


def _useless(spans: Collection[PageSpan], log_start: int, noted_loss: int) -> list[int]:
    """Return the first source offsets of pages that are useless (`PageIndex.useless`).
    `noted_loss`: the noted session of the newest loss page."""
    again = _copied_again(spans)
    passed = _passed(spans, log_start)
    gone: list[int] = []
    reach = 0
    # Earlier versions recorded losses only as pages.
    loss = max((span for span in spans if span.lost), default=None)
    if loss is not None and loss.session <= noted_loss:
        loss = None
    for span in sorted(spans):
        if span is loss:
            continue
        covered = again.get(span.session)
        expired = span.first_source in passed and max(span.end_source, reach) <= log_start
        again_there = covered is not None and not span.lost and _inside(span, covered)
        if expired or again_there:
            gone.append(span.first_source)
        else:
            reach = max(reach, span.end_source)
    return gone


def _passed(spans: Iterable[PageSpan], log_start: int) -> set[int]:
    """Return the first source offsets of pages that a later page follows at or before
    `log_start`."""
    found: set[int] = set()
    latest = -1
    for span in sorted(spans, reverse=True):
        if span.first_source < latest:
            found.add(span.first_source)
        if span.first_source <= log_start:
            latest = max(latest, span.first_source)
    return found


def _inside(span: PageSpan, covered: tuple[int, int]) -> bool:
    return covered[0] <= span.first_source and span.end_source <= covered[1]


def _copied_again(spans: Iterable[PageSpan]) -> dict[int, tuple[int, int]]:
    """Return, by session, the source offsets that later sessions cover without a gap, from the
    lowest one: (first, end)."""
    sessions: dict[int, list[PageSpan]] = {}
    for span in spans:
        sessions.setdefault(span.session, []).append(span)
    found: dict[int, tuple[int, int]] = {}
    covered: tuple[int, int] | None = None
    for session in sorted(sessions, reverse=True):
        if covered is not None:
            found[session] = covered
        first, end = _run(sorted(sessions[session]))
        if covered is None:
            covered = first, end
        elif first < covered[0]:
            covered = first, (max(end, covered[1]) if end >= covered[0] else end)
    return found


def _run(spans: Sequence[PageSpan]) -> tuple[int, int]:
    """Return (first, end) of the offsets that a session's pages cover without a gap from its first
    page on. Offsets of a loss page are not copied."""
    first = end = spans[0].first_source
    for span in spans:
        if span.first_source > end or span.lost:
            break
        end = max(end, span.end_source)
    return first, end
