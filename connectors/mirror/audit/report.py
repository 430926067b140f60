"""Builds the report of an audit from the outcomes of its ranges. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from connectors.mirror.audit.auditor import RangeOutcome
from connectors.mirror.audit.findings import Difference, RangeResult
from connectors.mirror.audit.plan import PartitionFacts
from connectors.mirror.audit.planner import AuditPlan

__all__ = ["AuditReport", "PartitionAudit", "make_report"]


@dataclass(slots=True)
class PartitionAudit:
    """The audit of a partition and its copy. `results`: its ranges, in order."""

    facts: PartitionFacts
    results: list[RangeResult] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def different(self) -> int:
        return sum(result.different for result in self.results)

    @property
    def differences(self) -> list[Difference]:
        return [each for result in self.results for each in result.differences]

    @property
    def counts(self) -> dict[str, int]:
        """Number of differing records by kind."""
        found: dict[str, int] = {}
        for result in self.results:
            for kind, records in result.counts.items():
                found[kind] = found.get(kind, 0) + records
        return found

    def total(self, name: str) -> int:
        """Return the sum of a `RangeResult` count over all ranges."""
        return sum(int(getattr(result, name)) for result in self.results)


@dataclass(slots=True)
class AuditReport:
    """The report of an audit. `absent`: source partitions without a copy, with the reason.
    `transformed`: topics that were not compared, because transformations change their records."""

    partitions: list[PartitionAudit]
    absent: dict[tuple[str, int], str]
    seconds: float = 0.0
    transformed: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether everything was audited."""
        return not any(partition.errors for partition in self.partitions)

    @property
    def equal(self) -> bool:
        """Whether no difference was found."""
        return not self.absent and not any(each.different for each in self.partitions)

    def to_json(self) -> dict[str, Any]:
        """Return plain values without secrets, for JSON."""
        return {
            "equal": self.equal,
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
            "absent": [
                {"topic": topic, "partition": partition, "reason": reason}
                for (topic, partition), reason in self.absent.items()
            ],
            "transformed": self.transformed,
            "partitions": [_partition_json(each) for each in self.partitions],
        }


def make_report(plan: AuditPlan, outcomes: Iterable[RangeOutcome], seconds: float) -> AuditReport:
    """Combine the outcomes of a plan's ranges."""
    partitions = {facts.source: PartitionAudit(facts) for facts in plan.facts}
    for outcome in sorted(outcomes, key=lambda each: (each.range.source, each.range.source_start)):
        partition = partitions[outcome.range.source]
        if outcome.result is not None:
            partition.results.append(outcome.result)
        if outcome.error is not None:
            partition.errors.append(outcome.error)
    return AuditReport(
        list(partitions.values()), dict(plan.absent), seconds, list(plan.transformed)
    )


def _partition_json(partition: PartitionAudit) -> dict[str, Any]:
    facts = partition.facts
    return {
        "topic": facts.source[0],
        "partition": facts.source[1],
        "target": facts.target[0],
        "position": facts.position,
        "left_out": facts.left_out,
        "errors": partition.errors,
        "ranges": [
            {
                **result.to_json(),
                "source_checksum": f"{result.source_checksum:016x}",
                "target_checksum": f"{result.target_checksum:016x}",
            }
            for result in partition.results
        ],
    }
