"""The oracle of what an engine says of its partitions, also during trouble.

A partition of which nothing is copied for longer than promised, although there is something to
copy, is told to be stuck and makes the flow unhealthy, whatever the cause. One that moves is not
told to be stuck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from connect.clock import Clock
from connectors.mirror.copy.engine import CopyEngine
from connectors.mirror.copy.partition.partition import PartitionCopy
from tests.simulation.copier.pair_oracle import Broken

__all__ = ["TOLD_S", "StatusOracle"]

TOLD_S = 20.0
"""The bound: a source that falls silent is told of after 5.5 s, and so long it may hide that there
is something to copy; what waits is told of after 10 s; partitions are looked at every second."""

_LOOKED_S = 2.5
"""A partition is looked at within this time. So long nothing is told after a cause has gone."""

_RECENTLY_S = 9.0
"""Below the time after which a partition that stopped is rightly told to be stuck."""

_GAP_S = 0.7
"""After a longer time without a step (a frozen process) observation begins anew."""


@dataclass(slots=True)
class _Seen:
    copied: int
    moved_at: float | None = None
    waits_since: float | None = None
    told_at: float = 0.0
    """When it was told last to be stuck."""


class StatusOracle:
    """Of one world. `copied(partition)`: a number that changes with each record that is copied for
    good; `waits(partition)`: whether there is something to copy."""

    def __init__(
        self,
        clock: Clock,
        copied: Callable[[PartitionCopy], int],
        waits: Callable[[PartitionCopy], bool],
    ) -> None:
        self._clock = clock
        self._copied = copied
        self._waits = waits
        self._seen: dict[PartitionCopy, _Seen] = {}
        self._looked_at = 0.0

    def reset(self) -> None:
        """Somebody paused, limited, stopped or started the copier."""
        self._seen.clear()

    def told_of_loss(self, partition: PartitionCopy) -> None:
        """It goes on elsewhere, and waits from now on."""
        if partition in self._seen:
            self._seen[partition].waits_since = None

    def look(self, engine: CopyEngine) -> None:
        """Call after each step."""
        now = self._clock.monotonic()
        if now - self._looked_at > _GAP_S or not engine.fetching:
            self._seen.clear()
        self._looked_at = now
        if not engine.fetching:
            return
        ill: set[tuple[str, int]] | None = None
        for partition in engine.partitions:
            seen = self._follow(partition, now)
            self._check_not_called_stuck(partition, seen, now)
            if partition.error is not None and not partition.lag and seen.waits_since is not None:
                # An unreachable source hides what waits, or where to begin. This is told, and the
                # time for the rest begins when it can be seen again.
                seen.waits_since = now
            if seen.waits_since is None or now - seen.waits_since <= TOLD_S:
                continue
            if ill is None:
                ill = {(each.topic, each.partition) for each in engine.unhealthy()[0]}
            if partition.source in ill:
                seen.told_at = now
            elif now - seen.told_at > _LOOKED_S:
                raise Broken(
                    f"{partition.name}: nothing was copied for {now - seen.waits_since:.1f} s after"
                    f" {partition.acked_position}, though something waits, and it is not told to"
                    " be stuck"
                )

    def _follow(self, partition: PartitionCopy, now: float) -> _Seen:
        copied = self._copied(partition)
        seen = self._seen.get(partition)
        if seen is None:
            seen = self._seen[partition] = _Seen(copied)
        elif copied > seen.copied:
            seen.copied, seen.moved_at, seen.waits_since = copied, now, None
        else:
            seen.copied = copied  # Less after a loss, which is no move.
        if partition.leaving or not self._waits(partition):
            seen.waits_since = None
        elif seen.waits_since is None:
            seen.waits_since = now
        return seen

    @staticmethod
    def _check_not_called_stuck(partition: PartitionCopy, seen: _Seen, now: float) -> None:
        stall = partition.stall
        if stall is None or seen.moved_at is None or not stall.startswith("nothing was copied"):
            return
        if _LOOKED_S < now - seen.moved_at < _RECENTLY_S:
            raise Broken(
                f"{partition.name} moved to {partition.acked_position} {now - seen.moved_at:.1f} s"
                f" ago, and is told to be stuck: {stall}"
            )
