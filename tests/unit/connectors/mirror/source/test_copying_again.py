"""After the target lost records, a crash never leaves a hole: a lower position is stored before its
records are copied again. The real task, in a simulated world with one partition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.map_notes import Note, note_key
from tests.simulation.kafka.log import Batch
from tests.simulation.kafka.partition import SimulatedPartition
from tests.unit.connectors.mirror.source.lossy_world import COPY, KEY, LossyWorld, source_offsets


@pytest.fixture
def world() -> Iterator[LossyWorld]:
    made = LossyWorld.made()
    made.policy = "copy"
    yield made
    for worker in made.alive:
        worker.kill()


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("kept", [0, 1])
def test_a_crash_while_lost_records_are_copied_again_leaves_no_hole(
    world: LossyWorld, kept: int, exactly_once: bool
) -> None:
    """`kept`: so many of the target's batches stay."""
    for _ in range(3):
        world.copy_more(10, exactly_once=exactly_once)
    worker = world.start_worker(exactly_once=exactly_once)
    world.drive(5.0)
    again: list[tuple[int, int | None]] = []

    def appended(partition: SimulatedPartition, batch: Batch) -> None:
        if partition.key == COPY and batch.marker is None and not again:
            world.oracle.read_offsets()
            again.append((source_offsets(batch)[0], world.oracle.stored_position(KEY)))
            world.soon(worker.kill)

    world.target.on_appended = appended
    batches = [batch for batch in world.copy.log.batches if batch.marker is None]
    world.target.truncate(world.copy, batches[kept].base)
    world.drive(30.0)
    ((first, stored),) = again
    assert first <= 10 * kept
    assert stored == first, "the next worker goes on beyond records that it has to copy"
    world.start_worker(exactly_once=exactly_once)
    world.drive(30.0)
    assert world.copied() == set(range(30))


def test_facts_follow_a_lower_position(world: LossyWorld) -> None:
    """The facts beside the former position say nothing of this one: the next start would not see a
    loss that came in between."""
    world.copy_more(10, exactly_once=False)
    world.start_worker()
    world.drive(5.0)
    world.target.truncate(world.copy, 0)
    world.copy.replicating = False  # what is copied again is not acknowledged
    world.drive(30.0)
    assert world.oracle.stored_position(KEY) == 0
    written = world.map.newest()[note_key(Note.FACTS, KEY)].value
    assert written is not None
    facts = LogIdentity.decode(written)
    assert (facts.position, facts.target_end) == (0, 0)
