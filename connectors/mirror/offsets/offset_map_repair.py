"""Computes the pages to write in place of offset map pages that others overwrote or deleted.

A page that came late hides nothing from readers that have read the earlier page, but compaction
keeps only the late one. Where the target lost records once, that must not happen: without the page
that tells of the loss, or the one that took its key, pages from before the loss would count again.
The contents of a page that is not in memory are unknown; its head is enough to lead no group past
records. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from connectors.mirror.offsets.offset_map_pages import LAST_OFFSET, MapPage, PageSpan, Segment

__all__ = ["head_of", "heads_in_place_of"]


def head_of(span: PageSpan, session: int | None = None) -> MapPage:
    """Return a page that translates all offsets within this one to its beginning, and overrules the
    same pages and syncs. A loss page is returned as it is. `session`: replaces the page's own."""
    segment = Segment(span.first_source, span.first_target, 0)
    return MapPage(span.session if session is None else session, [segment], span.end_source)


def heads_in_place_of(
    gone: Collection[PageSpan],
    known: Collection[PageSpan],
    owner: int,
    begun: Collection[PageSpan],
) -> list[MapPage]:
    """Return the pages to write, for the owner of a partition, in place of those that are gone.

    Readers leave out pages of sessions before the owner's. So a page of an earlier session gets the
    owner's, and then it would overrule the pages of the sessions in between: their heads are
    written with that session, too. The owner's own pages overrule all of them.

    Args: known: the other pages in the topic. begun: pages that the owner has begun.
    """
    found = [head_of(span) for span in gone if span.session >= owner]
    former = [span for span in gone if span.session < owner]
    own = [*begun, *(span for span in known if span.session >= owner)]
    end = min((each.first_source for each in own if not _is_head(each, owner)), default=LAST_OFFSET)
    placed: list[PageSpan] = []
    for span in sorted([*former, *(span for span in known if span.session <= owner)]):
        while placed and placed[-1].first_source >= span.first_source:
            placed.pop()
        placed.append(span)
    first = min((span.first_source for span in former if span in placed), default=end)
    return found + [head_of(span, owner) for span in placed if first <= span.first_source < end]


def _is_head(span: PageSpan, owner: int) -> bool:
    """Whether it was written here before. A loss that the owner found has a later session."""
    return span.lost and span.session == owner
