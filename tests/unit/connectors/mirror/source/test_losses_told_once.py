"""A loss after which a partition goes on is reported once, though nothing is copied after it. The
real task, in a simulated world with one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from connectors.mirror.config.losses import LossKind
from tests.simulation.kafka.partition import NO_LEADER
from tests.unit.connectors.mirror.source.lossy_world import COPY, KEY, LossyWorld

Lose = Callable[[LossyWorld], None]


@pytest.fixture
def world() -> Iterator[LossyWorld]:
    made = LossyWorld.made()
    yield made
    for worker in made.alive:
        worker.kill()


def _recreate_target(world: LossyWorld) -> None:
    world.target.delete(COPY[0])
    world.target.create(COPY[0], 1)


def _cut_target(world: LossyWorld) -> None:
    assert world.copy.leader != NO_LEADER
    world.target.truncate(world.copy, 5)


def _recreate_source(world: LossyWorld) -> None:
    world.delete_source()
    world.create_source()


LOSSES = [
    (_recreate_target, LossKind.TARGET_RECREATED),
    (_cut_target, LossKind.TARGET_LOSS),
    (_recreate_source, LossKind.SOURCE_RECREATED),
]


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize(("lose", "kind"), LOSSES)
def test_the_next_start_does_not_report_it_again(
    world: LossyWorld, lose: Lose, kind: LossKind, exactly_once: bool, killed: bool
) -> None:
    """`killed`: seconds after it was reported."""
    for _ in range(3):
        # The last anchor is then not where the target is cut off.
        world.copy_more(10, exactly_once=exactly_once)
    lose(world)
    for _ in range(3):
        worker = world.start_worker(exactly_once=exactly_once)
        world.drive(15.0)
        if killed:
            worker.kill()
        else:
            world.stop(worker)
        world.drive(1.0)
    assert [loss.kind for loss in world.losses] == [kind]


def test_one_before_the_first_offset_was_stored(world: LossyWorld) -> None:
    """The stored beginning is of the topic that is gone."""
    world.write(KEY, 10)
    world.start_worker()
    world.drive(5.0)
    assert world.copied()
    assert world.oracle.stored_position(KEY) is None
    _recreate_source(world)
    world.drive(15.0)
    world.alive[0].kill()
    world.start_worker()
    world.drive(15.0)
    assert [loss.kind for loss in world.losses] == [LossKind.SOURCE_RECREATED]


def test_two_losses_of_a_source_where_nothing_is_copied(world: LossyWorld) -> None:
    """Each is a loss of its own, and both are at offset 0."""
    world.copy_more(10, exactly_once=False)
    for _ in range(2):
        _recreate_source(world)
        for _ in range(2):
            worker = world.start_worker()
            world.drive(15.0)
            world.stop(worker)
    assert [loss.position for loss in world.losses] == [10, 0]


def test_the_facts_follow_that_could_not_be_stored_while_the_map_was_read(
    world: LossyWorld,
) -> None:
    """Nothing is copied after the first commit. The next start could not see that the source's
    topic is another one, and would leave out its first records (seed 1719 of the mirror's
    world)."""
    world.write(KEY, 10)
    world.topic_faults["map"].read_s = (8.0, 8.0)
    worker = world.start_worker()
    world.drive(7.0)
    worker.commit_soon()
    world.drive(1.0)
    assert world.oracle.stored_position(KEY) == 10
    world.drive(10.0)
    worker.kill()
    world.topic_faults["map"].read_s = (0.01, 0.3)
    _recreate_source(world)
    world.start_worker()
    world.drive(15.0)
    assert [loss.kind for loss in world.losses] == [LossKind.SOURCE_RECREATED]
