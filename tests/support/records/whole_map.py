"""Translates source offsets by all pages of a partition: what the product's readers of single pages
are compared with."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.offset_map_pages import OffsetMap
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.translation import Place

__all__ = ["WholeMap", "places"]


def places(
    store: OffsetMapStore, wanted: Mapping[TopicPartition, Iterable[int]]
) -> dict[tuple[TopicPartition, int], Place]:
    """Translations of source offsets by the map alone, of those that it knows."""
    known = store.known(wanted).items()
    return {key: each.place for key, each in known if each.place is not None}


class WholeMap(OffsetMap):
    """One partition's whole map, which translates."""

    def downstream(self, source: int) -> int | None:
        """The target offset at which to continue when `source` is next on the source: that of the
        record, or of the next one that exists. None: before the map, or the map is empty.

        Where no session knows the source, because another program copied there or nobody has yet:
        the end of what is known before it, so that nothing is left out.
        """
        starts = [segment.source for segment, _ in self._placed]
        index = bisect_right(starts, source) - 1
        if index < 0:
            return None
        segment, page = self._placed[index]
        ahead = source - segment.source
        if ahead < segment.length:
            return segment.target + ahead
        if index + 1 < len(self._placed) and segment.length:
            following, later = self._placed[index + 1]
            if later is page or page.end_source >= following.source:
                return following.target
        return segment.target + segment.length
