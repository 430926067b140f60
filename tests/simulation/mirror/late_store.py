"""A worker that stores its first offset after its successor has read that there is none.

Its successor reads the stored offsets first, and the map's topic seconds later. In between the
first worker wakes up, stores an offset of a partition that was new, and deletes its start position.
Then it learns that it lost its task, and the source deletes records that neither has copied. Only
the start position that was deleted a moment ago tells the successor that there was something to
lose.

Chance brings this about in one seed of thousands. Here it is arranged in a share of the seeds.
"""

from __future__ import annotations

from random import Random

from connect.protocol.messages import TopicPartition
from tests.simulation.mirror.worker import SimulatedWorker
from tests.simulation.mirror.world import MirrorWorld

__all__ = ["LateStore"]

_LOOK_S = 0.01
_SHARE = 1 / 12
_ACTIVE_MS = 10_000
_SLOW_READ_S = (1.5, 4.5)
"""Below the time for which a start waits for the map's topic."""


class LateStore:
    """Waits for a worker that has begun a partition of which nothing is stored."""

    def __init__(self, world: MirrorWorld, chance: Random) -> None:
        self._world = world
        self._chance = chance

    def plan(self) -> None:
        """In a share of the seeds it happens once."""
        if self._chance.random() < _SHARE and self._world.keeps_map:
            # Else the start position may be gone before its deletion is read.
            self._world.map.active_ms = _ACTIVE_MS
            self._look()

    def _look(self) -> None:
        world = self._world
        if world.calm:
            return
        running = world.running
        if len(world.alive) == 1 and running and not running[0].session.exactly_once:
            worker = running[0]
            begun = [
                key
                for key in world.oracle.map.first_positions()
                if world.oracle.stored_position(key) is None and worker.session.acked.get(key)
            ]
            if begun:
                self._overtake(worker, self._chance.choice(begun))
                return
        world.at(_LOOK_S, self._look)

    def _overtake(self, worker: SimulatedWorker, key: TopicPartition) -> None:
        world, chance = self._world, self._chance
        world.freeze(worker)
        # Only the successor's read is slow.
        faults = world.topic_faults["map"]
        before, faults.read_s = faults.read_s, _SLOW_READ_S
        world.start_worker(exactly_once=chance.random() < world.exactly_once_share)
        faults.read_s = before
        if worker.alive:
            world.thaw(worker)
            worker.commit_soon()
            self._lose_once_stored(worker, key, world.time.monotonic() + _SLOW_READ_S[1])

    def _lose_once_stored(self, worker: SimulatedWorker, key: TopicPartition, until: float) -> None:
        world = self._world
        if world.calm or not worker.alive or world.time.monotonic() > until:
            return
        if world.oracle.stored_position(key) is None or key in world.oracle.map.first_positions():
            world.at(_LOOK_S, lambda: self._lose_once_stored(worker, key, until))
            return
        worker.disown()
        world.write(key, self._chance.randint(1, 12))
        partition = world.source.find(key)
        assert partition is not None
        world.delete_before(key, partition.log.high)
