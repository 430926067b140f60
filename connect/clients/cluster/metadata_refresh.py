"""Schedule of metadata refreshes: when the next one is due and for which topics.

Requests are merged. After each refresh there is a minimum pause, which grows while refreshes bring
nothing new. Topics that are about to change (no leader yet) are refreshed without a request. All
topics are refreshed every metadata.max.age.ms. Pure bookkeeping over a clock.

Not thread-safe: the owner's lock guards it.
"""

from __future__ import annotations

from collections.abc import Iterable

from connect.clients.config.settings import WireSettings
from connect.clock import Clock
from connect.loop import backoff_s

__all__ = ["RefreshSchedule"]

# Decoding a response takes about 6 microseconds of CPU per partition (measured: 60 ms for 10,000 at
# worst). A pause of ten times that keeps metadata below a tenth of a core.
PAUSE_PER_PARTITION_S = 60e-6
# The longest pause before a topic without a leader, or a deleted topic, is queried again.
MAX_UNSETTLED_PAUSE_MS = 5_000


class RefreshSchedule:
    """Decides on refreshes. The first is due at once, to learn the nodes."""

    def __init__(self, settings: WireSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._requested: set[str] = set()
        self._is_requested = True
        self._unsettled: frozenset[str] = frozenset()
        self._unsettled_due = 0.0
        self._everything_due = clock.monotonic()
        self._not_before = clock.monotonic()
        self._took_everything = False
        self._fruitless = 0
        self._unsettled_fruitless = 0

    def request(self, topics: Iterable[str]) -> None:
        """Request a refresh of these topics and the nodes as soon as allowed."""
        self._requested.update(topics)
        self._is_requested = True

    def due_in(self) -> float:
        """Return the seconds until the next refresh; 0 or less if it is due."""
        if self._is_requested:
            due = 0.0
        elif self._unsettled:
            due = min(self._unsettled_due, self._everything_due)
        else:
            due = self._everything_due
        return max(due, self._not_before) - self._clock.monotonic()

    def take(self, watched: frozenset[str]) -> frozenset[str]:
        """Return the topics of the refresh that is due."""
        now = self._clock.monotonic()
        asked = frozenset(self._requested)
        if self._unsettled and now >= self._unsettled_due:
            asked |= self._unsettled
        self._took_everything = now >= self._everything_due
        if self._took_everything:
            asked = watched
        self._requested.clear()
        self._is_requested = False
        return asked & watched

    def succeeded(
        self, asked: frozenset[str], partitions: int, changed: bool, unsettled: frozenset[str]
    ) -> None:
        """Record a successful refresh of the topics `asked` with `partitions` partitions."""
        settings = self._settings
        now = self._clock.monotonic()
        idle = now - self._not_before > settings.retry_backoff_max_ms / 1000
        self._fruitless = 0 if changed or idle else self._fruitless + 1
        pause = settings.retry_backoff_s(self._fruitless)
        self._not_before = now + max(pause, partitions * PAUSE_PER_PARTITION_S)
        if self._took_everything:
            self._everything_due = now + settings.metadata_max_age_ms / 1000
        self._unsettled = unsettled
        self._unsettled_fruitless = 0 if changed else self._unsettled_fruitless + 1
        self._unsettled_due = now + backoff_s(
            settings.retry_backoff_ms / 1000,
            max(MAX_UNSETTLED_PAUSE_MS, settings.retry_backoff_max_ms) / 1000,
            self._unsettled_fruitless,
        )

    def failed(self, asked: frozenset[str]) -> None:
        """Record a failed refresh of the topics `asked`, and request it again."""
        self.request(asked)
        self._fruitless += 1
        self._not_before = self._clock.monotonic() + self._settings.retry_backoff_s(0)
