"""How a trial is run, and what came of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.chaos.evidence import Finding, Tally
from tests.support.chaos.forms import Form
from tests.support.chaos.schedule import MORE_TRACKS, TRACKS, Action, Need, plan

__all__ = ["Outcome", "Rules"]

_EACH_NODE = {"roll": 3}


@dataclass(frozen=True, slots=True)
class Rules:
    """How a trial is run. `controllers`: of each cluster, that are no brokers; 0: brokers are.
    `more`: whether links, controllers and partitions have tracks, too. `burst_mb`: what the writer
    at full rate writes at once."""

    seed: int
    seconds: float
    nodes: int = 3
    workers: int = 2
    exactly_once: bool = False
    form: Form = Form.DEDICATED
    controllers: int = 0
    more: bool = False
    without: frozenset[Need] = frozenset()
    burst_mb: float = 8.0

    def actions(self) -> list[Action]:
        tracks: Sequence[str] = (*TRACKS, *MORE_TRACKS) if self.more else TRACKS
        if not self.controllers:
            tracks = [track for track in tracks if track != "controllers"]
        # A worker with a wrong clock would give it to Spark.
        clock = {"clock"} if self.form is Form.SPARK else set()
        return plan(
            self.seed,
            self.seconds,
            nodes=self.nodes,
            workers=self.workers,
            tracks=tracks,
            without=self.without | clock,
        )

    @property
    def guarantee(self) -> str:
        return "exactly once" if self.exactly_once else "at least once"


@dataclass
class Outcome:
    """What was done, and what was found."""

    rules: Rules
    schedule: str
    done: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0
    fates: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    findings: list[Finding] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return sum(self.done.values())

    @property
    def restarts(self) -> int:
        """How often one partition may have been begun again: once for each fault of workers, of
        the target and of the way between, and twice where two workers are concerned."""
        met = 0
        for what, count in self.done.items():
            track, _, kind = what.partition(" ")
            if track not in ("source", "topics", "partitions"):
                met += count * _EACH_NODE.get(kind, 1)
        return 2 * (met + 1)

    @property
    def overlapping(self) -> bool:
        """Whether a worker may have gone on beside its successor: it was paused, cut off, or could
        not reach its group."""
        return any(kind.startswith(("workers", "target", "links")) for kind in self.done)

    def line(self) -> str:
        """As JSON, for a file with a line for each trial."""
        facts = {
            "seed": self.rules.seed,
            "seconds": self.rules.seconds,
            "nodes": self.rules.nodes,
            "controllers": self.rules.controllers,
            "form": self.rules.form.value,
            "without": sorted(self.rules.without),
            "exactly_once": self.rules.exactly_once,
            "actions": dict(sorted(self.done.items())),
            "records": self.fates,
            "copied": self.tally.copied,
            "repeated": self.tally.repeated,
            "jumps": self.tally.jumps,
            "reported_lost": self.tally.reported_lost,
            "written_again": self.tally.written_again,
            "read": self.read,
            "findings": [str(finding) for finding in self.findings],
        }
        return json.dumps(facts)
