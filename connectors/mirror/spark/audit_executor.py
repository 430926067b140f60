"""The part of the audit's Spark job that runs on executors, and its data exchange with the driver.

Executors have only the packages of `connectors.spark.packages`, without PyArrow, so this module
must not import others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from connectors.mirror.audit.alignment import Rules
from connectors.mirror.audit.auditor import AuditSetup, RangeOutcome, audit_ranges
from connectors.mirror.audit.findings import RangeResult
from connectors.mirror.audit.plan import AuditRange
from connectors.spark.worker_imports import leaving_zips_read

__all__ = ["outcome_of", "share_auditor", "share_text"]

OutcomeRow = tuple[str, str | None, str | None]
"""A range and its `RangeResult`, as JSON, or an error."""


def share_text(ranges: Sequence[AuditRange]) -> str:
    """Serialise a task's ranges, for `share_auditor`."""
    return json.dumps([asdict(each) for each in ranges])


def share_auditor(setup: AuditSetup, shares: Sequence[str]) -> Callable[[int], list[OutcomeRow]]:
    """Return a function that audits share number n."""

    @leaving_zips_read
    def work(number: int) -> list[OutcomeRow]:
        ranges = [_range(plain) for plain in json.loads(shares[number])]
        return [_row(outcome) for outcome in audit_ranges(setup, ranges)]

    return work


def outcome_of(range_text: str, result: str | None, error: str | None) -> RangeOutcome:
    """Parse an `OutcomeRow`."""
    found = None if result is None else RangeResult.from_json(json.loads(result))
    return RangeOutcome(_range(json.loads(range_text)), found, error)


def _row(outcome: RangeOutcome) -> OutcomeRow:
    result = None if outcome.result is None else json.dumps(outcome.result.to_json())
    return json.dumps(asdict(outcome.range)), result, outcome.error


def _range(plain: dict[str, object]) -> AuditRange:
    values: dict[str, object] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
    }
    rules = plain["rules"]
    assert isinstance(rules, dict)
    return AuditRange(**{**values, "rules": Rules(**rules)})  # type: ignore[arg-type]
