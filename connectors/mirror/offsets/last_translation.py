"""The last round that was translated: the same question again costs nothing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset

__all__ = ["LastTranslation"]


class LastTranslation:
    """The last question and its answer: the same question again costs no job."""

    def __init__(self) -> None:
        self._question = self._asked = 0
        self._places: Sequence[Place | None] | None = None

    def of(
        self, version: Hashable, offsets: Sequence[GroupOffset]
    ) -> Sequence[Place | None] | None:
        """The answer, if it is the same question. `version`: of what is known to translate by."""
        self._asked = hash((version, tuple(offsets)))
        return self._places if self._asked == self._question else None

    def keep(self, places: Sequence[Place | None]) -> Sequence[Place | None]:
        """The answer to what was asked last."""
        self._question, self._places = self._asked, places
        return places
