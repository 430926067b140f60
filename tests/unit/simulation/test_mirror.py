"""The source task under the simulator: the seeds that run each time, and that a seed repeats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.mirror.offsets.map_notes import Note, parse_note_key
from tests.simulation.mirror import run
from tests.simulation.mirror.world import MirrorWorld
from tests.simulation.worlds import SEEDS_IN_CHECK, broken, chunks

_FOUND = (
    *(344, 676, 1198, 1809, 2004, 2028, 3055, 4410),
    *(1270, 2020, 2050, 2799, 2958, 5199, 5716, 5850, 6207, 9344, 17002, 409),
    *(346, 443, 769, 978, 1133, 1266, 1303, 1713, 1719, 1864, 2195, 2724, 3523, 4302, 6596),
)
"""Seeds that once had a finding."""

_LONG_S = 1000.0

KEY = ("t", 0)


@pytest.mark.parametrize("seeds", chunks(0, SEEDS_IN_CHECK["mirror"]), ids=str)
def test_no_seed_breaks_an_invariant(seeds: range) -> None:
    for seed in seeds:
        _check(seed)


@pytest.mark.parametrize("seed", _FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    _check(seed)


def _check(seed: int) -> None:
    finding = broken("mirror", seed)
    assert finding is None, finding


def test_the_same_seed_is_the_same_run() -> None:
    once, again = run(7), run(7)
    assert once.events == again.events
    assert once.history == again.history


@pytest.fixture
def world() -> Iterator[MirrorWorld]:
    """Two partitions with ten records each, of which no offset is stored before a worker stops."""
    worlds = map(MirrorWorld, range(100))
    made = next(w for w in worlds if len(w.keys) == 2 and w.keeps_map and w.emits_syncs)
    made.commit_every(_LONG_S)
    for key in made.keys:
        made.write(key, 10)
    yield made
    for worker in made.alive:
        worker.kill()


def _first_positions(world: MirrorWorld) -> set[tuple[str, int] | None]:
    return {parse_note_key(Note.START, key) for key in world.map.newest()} - {None}


def test_a_partition_that_comes_back_before_it_was_stored_is_stored_in_the_end(
    world: MirrorWorld,
) -> None:
    worker = world.start_worker()
    world.drive(5.0)
    for assigned in (world.keys[1:], world.keys):
        world.assigned = list(assigned)
        worker.reconfigure(world.config())
        world.drive(1.0)
    world.stop(worker)
    assert world.oracle.stored_position(KEY) == 10


def test_where_it_began_is_known_until_it_is_stored(world: MirrorWorld) -> None:
    worker = world.start_worker()
    world.drive(5.0)
    for assigned in (world.keys[1:], world.keys):
        world.assigned = list(assigned)
        worker.reconfigure(world.config())
        world.drive(1.0)
    assert KEY in _first_positions(world)
    world.stop(worker)
    assert KEY not in _first_positions(world)


def test_under_exactly_once_a_task_that_loses_partitions_is_restarted(world: MirrorWorld) -> None:
    """What was acknowledged of them may still be aborted: it would be skipped if they came back."""
    worker = world.start_worker(exactly_once=True)
    world.drive(5.0)
    world.assigned = list(world.keys[1:])
    assert not worker.task.reconfigure(world.config())
    world.assigned = list(world.keys)
    assert worker.task.reconfigure(world.config())
