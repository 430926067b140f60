"""The kinds of losses in either log, and the user's policies for them.

Pure: it contacts no cluster. The copier detects losses (`copy/positions/offset_reset.py`,
`copy/positions/log_validation.py`), applies these policies and notifies its owner.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect.protocol.messages import TopicPartition

__all__ = ["Decision", "Loss", "LossKind", "LossPolicies", "LossPolicy", "decide"]


class LossKind(enum.Enum):
    """The kinds of losses. The value is the last part of the property's name, and the kind in the
    history."""

    RETENTION = "retention"
    """The source deleted records before they were copied."""
    TRUNCATION = "truncation"
    """The source's log ends before the fetch position, or has other records there: the source lost
    records that were copied (an unclean leader election)."""
    SOURCE_RECREATED = "source.recreated"
    """The topic was deleted and re-created on the source."""
    TARGET_RECREATED = "target.recreated"
    """The topic was deleted and re-created on the target."""
    TARGET_LOSS = "target.loss"
    """The target's log ends before an offset that it had acknowledged."""


class LossPolicy(enum.Enum):
    """How to continue after a loss, which is always reported."""

    FAIL = "fail"
    """The partition stops until a user acts."""
    REPORT = "report"
    """Continue with the next record."""
    COPY = "copy"
    """Copy again the records that the target should have and the source still has."""


class Decision(enum.Enum):
    """Where a partition continues after a loss."""

    STAND = enum.auto()
    """Nowhere, until a user acts."""
    RESET = enum.auto()
    """Where auto.offset.reset says."""
    NEXT = enum.auto()
    """At its position."""
    DIVERGENCE = enum.auto()
    """At the offset from which on the log differs from what was copied."""
    LOG_START = enum.auto()
    """At the log start offset of the source."""
    AGAIN = enum.auto()
    """At the source offset of the first record that the target lost."""


_DECISIONS: Mapping[LossKind, Mapping[LossPolicy, Decision]] = {
    LossKind.RETENTION: {
        LossPolicy.FAIL: Decision.STAND,
        LossPolicy.REPORT: Decision.RESET,
        LossPolicy.COPY: Decision.RESET,
    },
    LossKind.TRUNCATION: {
        LossPolicy.FAIL: Decision.STAND,
        LossPolicy.REPORT: Decision.DIVERGENCE,
        LossPolicy.COPY: Decision.LOG_START,
    },
    LossKind.SOURCE_RECREATED: {
        LossPolicy.FAIL: Decision.STAND,
        LossPolicy.REPORT: Decision.LOG_START,
        LossPolicy.COPY: Decision.LOG_START,
    },
    LossKind.TARGET_RECREATED: {
        LossPolicy.FAIL: Decision.STAND,
        LossPolicy.REPORT: Decision.NEXT,
        LossPolicy.COPY: Decision.AGAIN,
    },
    LossKind.TARGET_LOSS: {
        LossPolicy.FAIL: Decision.STAND,
        LossPolicy.REPORT: Decision.NEXT,
        LossPolicy.COPY: Decision.AGAIN,
    },
}


def decide(kind: LossKind, policy: LossPolicy) -> Decision:
    """Return where to continue after this kind of loss under this policy. Nothing else interprets
    policies."""
    return _DECISIONS[kind][policy]


@dataclass(frozen=True, slots=True)
class LossPolicies:
    """The policy of each kind of loss. `default` applies to kinds without their own."""

    default: LossPolicy = LossPolicy.REPORT
    kinds: Mapping[LossKind, LossPolicy] = field(default_factory=dict)

    def of(self, kind: LossKind) -> LossPolicy:
        return self.kinds.get(kind, self.default)

    def decide(self, kind: LossKind) -> Decision:
        return decide(kind, self.of(kind))


@dataclass(frozen=True, slots=True)
class Loss:
    """A detected loss. `first` to `end` - 1 are source offsets; for `TARGET_LOSS` and
    `TARGET_RECREATED`, target offsets. `resume`: the source offset at which copying continues;
    None: the partition stops."""

    kind: LossKind
    policy: LossPolicy
    source: TopicPartition
    target: TopicPartition
    first: int
    end: int
    position: int
    """The next source offset when the loss was detected."""
    resume: int | None

    @property
    def decision(self) -> Decision:
        return decide(self.kind, self.policy)

    @property
    def on_target(self) -> bool:
        return self.kind in (LossKind.TARGET_LOSS, LossKind.TARGET_RECREATED)

    @property
    def records(self) -> int:
        """Return the number of affected offsets. Some of them may hold no record."""
        return max(0, self.end - self.first)

    @property
    def never_copied(self) -> int:
        """Return the number of source offsets that will never be on the target."""
        return self.records if self.kind is LossKind.RETENTION else 0

    @property
    def what(self) -> str:
        """Describe the loss and its offsets."""
        source, target = (f"{topic}-{number}" for topic, number in (self.source, self.target))
        span = f"offsets {self.first} to {self.end - 1}"
        if self.kind is LossKind.RETENTION:
            return (
                f"{source}: the source no longer has {span}: they were deleted before they were "
                "copied"
            )
        if self.kind is LossKind.TRUNCATION:
            if self.records:
                return (
                    f"{source}: the source lost {span}, which were copied: its log was truncated, "
                    "and other records replace them"
                )
            return (
                f"{source}: the source ends before offset {self.position}, which was next: it was "
                "truncated or re-created"
            )
        if self.kind is LossKind.SOURCE_RECREATED:
            return (
                f"{source}: the source's topic was deleted and created again; offset "
                f"{self.position} was next"
            )
        if self.kind is LossKind.TARGET_RECREATED:
            return (
                f"{source}: the target's topic {self.target[0]} was deleted and created again, or "
                "has this name since the replication policy was changed; source offset "
                f"{self.position} was next"
            )
        return (
            f"{source}: the target lost {span} of {target}, which it had acknowledged; source "
            f"offset {self.position} was next"
        )

    @property
    def then(self) -> str:
        """Describe the action taken."""
        if self.resume is None:
            return (
                f"the partition is stopped because mirror.loss.policy.{self.kind.value}=fail: "
                "set another policy, or delete or alter the partition's stored offset"
            )
        if self.kind is LossKind.SOURCE_RECREATED:
            return f"now copying the new topic from {self.resume}"
        before = self.first if self.kind is LossKind.TRUNCATION else self.position
        again = "copying again from" if self.resume < before else "continuing at"
        return f"{again} {self.resume}"

    def __str__(self) -> str:
        return f"{self.what}; {self.then}"

    def to_json(self) -> str:
        """Return all fields as JSON values, which `of_json` reads."""
        return json.dumps(
            [
                self.kind.value,
                self.policy.value,
                *self.source,
                *self.target,
                self.first,
                self.end,
                self.position,
                self.resume,
            ]
        )

    @classmethod
    def of_json(cls, text: str) -> Loss:
        kind, policy, topic, number, copy, its_number, *offsets = json.loads(text)
        return cls(
            LossKind(kind), LossPolicy(policy), (topic, number), (copy, its_number), *offsets
        )
