"""Caches the last translated round, so that an unchanged round needs no Spark job."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset

__all__ = ["LastTranslation"]


class LastTranslation:
    """The last translated offsets and their result."""

    def __init__(self) -> None:
        self._question = self._asked = 0
        self._places: Sequence[Place | None] | None = None

    def of(
        self, version: Hashable, offsets: Sequence[GroupOffset]
    ) -> Sequence[Place | None] | None:
        """Return the cached result if the offsets are the same. `version`: the version of the syncs
        and the map that were used."""
        self._asked = hash((version, tuple(offsets)))
        return self._places if self._asked == self._question else None

    def keep(self, places: Sequence[Place | None]) -> Sequence[Place | None]:
        """Store the result of the offsets that were last passed to `of`."""
        self._question, self._places = self._asked, places
        return places
