"""The outcome of one simulated run, the same for all worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of one world under one seed.

    `finding` is None if every invariant held; otherwise one sentence that names the broken
    invariant. `history` is the readable story of the run, oldest event first; it may be empty if
    there is no finding. `events` counts simulated events, to show that a run did something.
    """

    world: str
    seed: int
    finding: str | None = None
    history: Sequence[str] = ()
    events: int = 0
