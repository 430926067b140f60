"""World "mirror": the real source task, run by the real worker classes against simulated clusters.

`run(seed)` is one run: at-least-once and exactly-once workers that are killed, frozen, stopped,
paused and given other partitions, with clocks that differ, while records arrive and are deleted.
"""

from __future__ import annotations

import random

from connectors.mirror.copy.batches import conversion as chooser
from tests.simulation.mirror.schedule import plan
from tests.simulation.mirror.session import Finding
from tests.simulation.mirror.world import MirrorWorld
from tests.simulation.mutants import replaced
from tests.simulation.outcome import Outcome

__all__ = ["run"]

WORLD = "mirror"


def run(seed: int) -> Outcome:
    """One run."""
    random.seed(seed)  # the jitter of the product's backoffs
    world = MirrorWorld(seed)
    finding: str | None = None
    try:
        with replaced(chooser, "rebatch", world.rebatch):
            world.drive(plan(world))
            world.settle()
            world.end()
    except Finding as found:
        finding = str(found)
    except Exception as error:  # noqa: BLE001 - whatever breaks the simulation is a finding
        finding = f"{type(error).__name__}: {error}"
        world.timeline.note(f"the simulation broke: {error!r}")
    return Outcome(WORLD, seed, finding, tuple(world.timeline.lines), world.time.happened)
