"""What is done to a trial, and when: a pure function of the seed.

Four tracks run at the same time. On each, one action ends before the next begins, so that of each
cluster one node at most is away: everything that was acknowledged must survive then.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["KINDS", "TRACKS", "Action", "plan", "show"]

TRACKS = ("source", "target", "workers", "topics")

_BROKERS = {
    "kill": 3,
    "restart": 2,
    "pause": 3,
    "cut both": 2,
    "cut out": 2,
    "cut in": 2,
    "move leaders": 2,
    "roll": 1,
}
KINDS: Mapping[str, Mapping[str, int]] = {
    "source": _BROKERS,
    "target": {**_BROKERS, "fill disk": 2},
    "workers": {
        "kill": 4,
        "restart": 2,
        "pause": 3,
        "cut both": 1,
        "cut out": 1,
        "cut in": 1,
        "cut from source": 1,
        "cut from target": 1,
        "clock jump": 2,
        "roll": 1,
    },
    "topics": {"trim": 4, "create again": 1},
}
"""By track, the kinds of actions with how often each is drawn beside the others."""

_LONG = {"pause", "fill disk"}
_HOLD_S = (0.5, 6.0)
_LONG_HOLD_S = (1.0, 12.0)
"""On both sides of the 6 s after which brokers and workers are missed."""
_GAP_S = {
    "source": (2.0, 12.0),
    "target": (2.0, 12.0),
    "workers": (2.0, 9.0),
    "topics": (4.0, 15.0),
}
_QUICK_GAP_S = (1.0, 4.0)
_FIRST_S = 1.5
_JUMP_S = (30, 3_600)


@dataclass(frozen=True, slots=True)
class Action:
    """`at`: seconds after the start, or when the one before on its track has ended. `which`: the
    node or worker, counted from 1, or for topics the partition. `hold_s`: how long it lasts.
    `amount`: seconds of a clock jump; of a trim, how many records before the end it stops."""

    at: float
    track: str
    kind: str
    which: int
    hold_s: float
    amount: int = 0


def plan(
    seed: int,
    seconds: float,
    *,
    nodes: int = 3,
    workers: int = 2,
    partitions: int = 2,
    tracks: Sequence[str] = TRACKS,
) -> list[Action]:
    """The actions for a trial of so many seconds, by time."""
    draw = random.Random(f"{seed}/{seconds:g}/{nodes}/{workers}")
    counts = {"source": nodes, "target": nodes, "workers": workers, "topics": partitions}
    found: list[Action] = []
    for track in tracks:
        kinds = KINDS[track]
        gap = _GAP_S[track] if seconds > 30 else _QUICK_GAP_S
        at = _FIRST_S + draw.uniform(0.0, gap[0])
        while at < seconds:
            kind = draw.choices(list(kinds), list(kinds.values()))[0]
            hold = draw.uniform(*(_LONG_HOLD_S if kind in _LONG else _HOLD_S))
            amount = 0
            if kind == "clock jump":
                amount = draw.choice((-1, 1)) * draw.randint(*_JUMP_S)
            elif kind == "trim":
                amount = draw.choice((0, 0, 5, 50))
            elif kind == "create again":
                hold = draw.uniform(0.0, 2.0)
            which = draw.randint(1, counts[track])
            found.append(Action(round(at, 2), track, kind, which, round(hold, 2), amount))
            at += hold + draw.uniform(*gap)
    return sorted(found, key=lambda action: action.at)


def show(actions: Sequence[Action]) -> str:
    """One line for each."""
    return "\n".join(
        f"{a.at:7.2f} s  {a.track} {a.which}: {a.kind}, {a.hold_s:g} s"
        + (f", {a.amount:+d}" if a.amount else "")
        for a in actions
    )
