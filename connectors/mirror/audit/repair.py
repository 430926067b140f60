"""Copies again what an audit found missing, where the order allows: at the end of a partition.

A record that is missing between others cannot be put back: it would come after records that it was
before. What is missing behind the last record that is on both sides, as a target that lost its
newest records leaves it, is simply what comes next. The mirror of the flow must not run meanwhile:
where it does, nothing is copied.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import LATEST
from connect.clients.config.settings import WireSettings
from connect.errors import ConnectError
from connectors.mirror.audit.findings import LISTED, Kind
from connectors.mirror.audit.planner import AuditPlan, FlowToAudit
from connectors.mirror.audit.report import AuditReport, PartitionAudit
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.copy.engine import EngineSettings
from connectors.mirror.copy.range_copier import CopiedRange, RangeProgress, SourceRange, copy_ranges
from connectors.mirror.copy.settings import engine_settings
from connectors.mirror.inspect.running_flow import LiveFlow

__all__ = ["Repair", "repair", "what_to_copy"]

_STALL_S = 60.0
_LIST_S = 60.0

_ANEW = "to have all there, delete the copy and reset the flow's stored offset: all is copied anew"


@dataclass(frozen=True, slots=True)
class Repair:
    """What became of one partition's missing records. `reason`: why the rest was not copied, and
    what helps."""

    source: tuple[str, int]
    copied: int
    reason: str


def what_to_copy(partition: PartitionAudit) -> SourceRange | str:
    """The range that can be copied again, or why there is none. Pure."""
    facts = partition.facts
    if partition.errors:
        return "it was not audited whole"
    last_source = max((result.last_source for result in partition.results), default=-1)
    last_target = max((result.last_target for result in partition.results), default=-1)
    start = max(last_source + 1, facts.first)
    listed = partition.differences
    whole = all(len(result.differences) < LISTED for result in partition.results)
    behind = any(
        each.target is not None and each.target + each.records > last_target + 1 for each in listed
    )
    if behind or not whole:
        return f"the target ends with records that are not the source's next ones; {_ANEW}"
    if not any(
        each.kind is Kind.MISSING and each.source is not None and each.source >= start
        for each in listed
    ):
        return f"what differs is not at the end: put behind others it breaks the order; {_ANEW}"
    if facts.position is None:
        return "where the mirror goes on is not known, so starting it is what copies the rest"
    return SourceRange(facts.source, facts.target, start, min(facts.position, facts.source_end))


def repair(flow: FlowToAudit, plan: AuditPlan, report: AuditReport, live: LiveFlow) -> list[Repair]:
    """Copy what can be; blocks until it is on the target. `live`: whether the mirror runs. Raises
    one of `connect.errors`."""
    found: list[Repair] = [
        Repair(
            key,
            0,
            f"{reason}: the mirror creates it when it runs, and copies what it had copied before "
            "only with mirror.loss.policy=copy",
        )
        for key, reason in report.absent.items()
    ]
    ranges: list[SourceRange] = []
    ends = {each.facts.target: each.facts.target_end for each in report.partitions}
    for partition in report.partitions:
        if not partition.different:
            continue
        wanted = what_to_copy(partition)
        if isinstance(wanted, str):
            found.append(Repair(partition.facts.source, 0, wanted))
        elif live.copies(wanted.source):
            running = f"the flow is running ({live.members[0]}): stop it first"
            found.append(Repair(wanted.source, 0, running))
        else:
            ranges.append(wanted)
    if not ranges:
        return found
    consumer = dict(plan.setup.source)
    config = SourceConfig.from_properties(flow.properties)
    producer = {
        **client_configs.client_properties(flow.properties, "target", "producer", "audit-repair"),
        **flow.producer,
    }
    settings = engine_settings(config, consumer, producer)
    still = _unchanged(settings.target, ranges, ends)
    moved = [each for each in ranges if each not in still]
    found += [
        Repair(each.source, 0, "its copy has grown since: stop the mirror first") for each in moved
    ]
    if still:
        # As the mirror itself reads: the stored position is where it goes on, whatever is missing.
        settings = replace(settings, fetch=replace(settings.fetch, auto_offset_reset="none"))
        stay = {each.facts.source: _stays(each) for each in report.partitions}
        found += [replace(each, reason=stay[each.source]) for each in _copied(still, settings)]
    return found


def _stays(partition: PartitionAudit) -> str:
    """What of a partition's differences is not at its end."""
    last = max((result.last_source for result in partition.results), default=-1)
    behind = sum(
        each.records
        for each in partition.differences
        if each.kind is Kind.MISSING and each.source is not None and each.source > last
    )
    left = partition.different - behind
    return f"{left} records differ before the end, and stay so; {_ANEW}" if left > 0 else ""


class _Copy:
    """Counts what was copied."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], int] = {}

    def note(self, _progress: Sequence[RangeProgress], lines: Sequence[CopiedRange]) -> None:
        for line in lines:
            self.records[line.source] = self.records.get(line.source, 0) + line.records


def _copied(ranges: Sequence[SourceRange], settings: EngineSettings) -> list[Repair]:
    copy = _Copy()
    copy_ranges(settings, ranges, copy.note, stop=threading.Event(), stall_s=_STALL_S)
    return [Repair(each.source, copy.records.get(each.source, 0), "") for each in ranges]


def _unchanged(
    target: WireSettings, ranges: Sequence[SourceRange], ends: dict[tuple[str, int], int]
) -> list[SourceRange]:
    """Those whose copies still end where they were audited to."""
    topics = {each.target[0] for each in ranges}
    link = ClusterLink(target, lambda: None, name="audit-repair", topics=topics)
    try:
        keys = [each.target for each in ranges]
        answers = link.list_offsets(keys, LATEST, 1, _LIST_S).result(2 * _LIST_S)
    finally:
        link.close()
    for answer in answers.values():
        if isinstance(answer, ConnectError):
            raise answer
    return [each for each in ranges if answers[each.target] == ends[each.target]]
