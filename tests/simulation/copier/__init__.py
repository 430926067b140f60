"""The world "copier": the real `CopyEngine` between simulated clusters, under one seed."""

from __future__ import annotations

import traceback

from connectors.mirror.copy import watch_list
from tests.simulation.copier.pair_oracle import Broken
from tests.simulation.copier.plan import plan_for
from tests.simulation.copier.world import CopierWorld
from tests.simulation.mutants import replaced
from tests.simulation.outcome import Outcome

__all__ = ["run"]


def run(seed: int) -> Outcome:
    """One run. Whatever is raised inside is a finding; then it is run again, told in detail."""
    finding, told, events = _run(seed, in_detail=False)
    if finding is None:
        return Outcome("copier", seed, None, told, events)
    again, history, _ = _run(seed, in_detail=True)
    if again != finding:
        history = [*history, f"and told in detail, the run ended otherwise: {again}"]
    return Outcome("copier", seed, finding, history, events)


def _run(seed: int, *, in_detail: bool) -> tuple[str | None, list[str], int]:
    """(finding, history, events)"""
    plan = plan_for(seed)
    world = CopierWorld(plan, in_detail=in_detail)
    finding: str | None = None
    trace: list[str] = []
    try:
        few = 0 if plan.watches_few else watch_list.FEW
        with replaced(watch_list, "FEW", few):
            world.run()
    except Broken as broken:
        finding = str(broken)
    except Exception as error:  # noqa: BLE001 - an error of the copier, or of the simulation
        finding = f"{type(error).__name__}: {error}"
        trace = traceback.format_exc().splitlines()
    finally:
        if finding is not None and world.worker.engine is not None:
            world.worker.kill()
    return finding, [str(plan), *world.story, *trace], world.time.happened
