"""What is known of both logs of a partition, handed from one job to the next.

A `RangeCopier` forgets a partition after each job. The caller keeps this, so that the next job
notices what the logs lost meanwhile, and validates only logs whose leaders have changed. It travels
as text, also between processes. Pure.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from connectors.mirror.offsets.log_identity import LogIdentity

__all__ = ["KnownLogs"]

_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class KnownLogs:
    """`facts`: for the position at which the next job starts. `source_checked`, `target_checked`:
    the leader epochs in which the logs were last validated; -1: they were not."""

    facts: LogIdentity
    source_checked: int = _UNKNOWN
    target_checked: int = _UNKNOWN

    def to_text(self) -> str:
        """Return it as ASCII text without control characters, with the newest epochs only."""
        facts = base64.b64encode(self.facts.newest.encode()).decode("ascii")
        return f"{self.source_checked} {self.target_checked} {facts}"

    @classmethod
    def of_text(cls, text: str) -> KnownLogs:
        """Parse `to_text`."""
        source, target, facts = text.split(" ")
        return cls(LogIdentity.decode(base64.b64decode(facts)), int(source), int(target))
