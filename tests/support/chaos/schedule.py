"""What is done to a trial, and when: a pure function of the seed.

Tracks run at the same time. On each, one action ends before the next begins, so that of each
cluster one broker at most is away: everything that was acknowledged must survive then.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["KINDS", "MORE_TRACKS", "NEEDS", "TRACKS", "Action", "Need", "plan", "show"]

TRACKS = ("source", "target", "workers", "topics")
MORE_TRACKS = ("links", "controllers", "partitions")
"""Drawn by themselves, so that a seed's actions on the tracks above stay what they were."""

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
    "links": {"loss": 2, "jitter": 2, "duplication": 2, "rough": 2},
    "controllers": {"kill": 2, "pause": 1},
    "partitions": {"add": 1},
}
"""By track, the kinds of actions with how often each is drawn beside the others."""

Need = str
NEEDS: Mapping[Need, Collection[tuple[str, str]]] = {
    "clock": [("workers", "clock jump")],
    "links": [
        (track, kind)
        for track, kinds in KINDS.items()
        for kind in kinds
        if kind.startswith("cut") or track == "links"
    ],
    "disks": [("target", "fill disk")],
}
"""The actions that a machine may not allow, by what a run without them is asked for."""

_LONG = {"pause", "fill disk"}
_HOLD_S = (0.5, 6.0)
_LONG_HOLD_S = (1.0, 12.0)
"""On both sides of the 6 s after which brokers and workers are missed."""
_GAP_S = {
    "source": (2.0, 12.0),
    "target": (2.0, 12.0),
    "workers": (2.0, 9.0),
    "topics": (4.0, 15.0),
    "links": (2.0, 10.0),
    "controllers": (8.0, 30.0),
    "partitions": (4.0, 20.0),
}
_QUICK_GAP_S = (1.0, 4.0)
_FIRST_S = 1.5
_JUMP_S = (30, 3_600)


@dataclass(frozen=True, slots=True)
class Action:
    """`at`: seconds after the start, or when the one before on its track has ended. `which`: the
    node, worker or host, counted from 1, or for topics the partition; of controllers, 1 is the
    source's. `hold_s`: how long it lasts. `amount`: seconds of a clock jump; of a trim, how many
    records before the end it stops; of a link, percent of frames and, for jitter, milliseconds."""

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
    without: Collection[Need] = (),
) -> list[Action]:
    """The actions for a trial of so many seconds, by time."""
    name = f"{seed}/{seconds:g}/{nodes}/{workers}"
    counts = {
        "source": nodes,
        "target": nodes,
        "workers": workers,
        "topics": partitions,
        "links": 2 * nodes + workers,
        "controllers": 2,
        "partitions": 1,
    }
    draw = random.Random(name)
    found: list[Action] = []
    for track in [each for each in TRACKS if each in tracks]:
        found += _track(track, draw, seconds, counts[track])
    for track in [each for each in MORE_TRACKS if each in tracks]:
        found += _track(track, random.Random(f"{name}/{track}"), seconds, counts[track])
    left_out = {kind for need in without for kind in NEEDS[need]}
    kept = [action for action in found if (action.track, action.kind) not in left_out]
    return sorted(kept, key=lambda action: action.at)


def _track(track: str, draw: random.Random, seconds: float, count: int) -> list[Action]:
    kinds = KINDS[track]
    gap = _GAP_S[track] if seconds > 30 else _QUICK_GAP_S
    found = []
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
        elif track == "links":
            amount = draw.randint(1, 10)
        elif track == "partitions":
            hold = 0.0
        which = draw.randint(1, count)
        found.append(Action(round(at, 2), track, kind, which, round(hold, 2), amount))
        at += hold + draw.uniform(*gap)
    return found


def show(actions: Sequence[Action]) -> str:
    """One line for each."""
    return "\n".join(
        f"{a.at:7.2f} s  {a.track} {a.which}: {a.kind}, {a.hold_s:g} s"
        + (f", {a.amount:+d}" if a.amount else "")
        for a in actions
    )
