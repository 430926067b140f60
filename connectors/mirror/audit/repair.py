"""Copies missing records again at the end of a partition, where this keeps the order.

A record that is missing between others cannot be restored, because it would follow later records.
Records that are missing after the last match, for example because the target lost its newest
records, are simply the next ones to copy. Nothing is copied while the flow's mirror runs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
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
from connectors.mirror.copy.range_copier import RangeReport, SourceRange, copy_ranges
from connectors.mirror.copy.settings import EngineSettings, engine_settings
from connectors.mirror.inspect.running_flow import LiveFlow

__all__ = ["Repair", "repair", "what_to_copy"]

_STALL_S = 60.0
_LIST_S = 60.0

_ANEW = (
    "to repair it, delete the copy and reset the flow's stored offset; the mirror then copies "
    "everything again"
)


@dataclass(frozen=True, slots=True)
class Repair:
    """The outcome for one partition. `reason`: why some missing records were not copied, and the
    remedy."""

    source: tuple[str, int]
    copied: int
    reason: str


def what_to_copy(partition: PartitionAudit) -> SourceRange | str:
    """Return the range that can be copied again, or the reason why none can. Pure."""
    facts = partition.facts
    if partition.errors:
        return "the audit of the partition is incomplete"
    last_source = max((result.last_source for result in partition.results), default=-1)
    last_target = max((result.last_target for result in partition.results), default=-1)
    start = max(last_source + 1, facts.first)
    listed = partition.differences
    whole = all(len(result.differences) < LISTED for result in partition.results)
    behind = any(
        each.target is not None and each.target + each.records > last_target + 1 for each in listed
    )
    if behind or not whole:
        return f"the last records on the target are not the next ones of the source; {_ANEW}"
    if not any(
        each.kind is Kind.MISSING and each.source is not None and each.source >= start
        for each in listed
    ):
        return (
            "the differences are not at the end of the partition, so appending the records "
            f"would break the order; {_ANEW}"
        )
    if facts.position is None:
        return "the mirror's stored offset is unknown; start the mirror to copy the rest"
    return SourceRange(facts.source, facts.target, start, min(facts.position, facts.source_end))


def repair(flow: FlowToAudit, plan: AuditPlan, report: AuditReport, live: LiveFlow) -> list[Repair]:
    """Copy the records that can be copied. Blocks until the target has acknowledged them.

    `live`: whether the mirror runs. Raises one of `connect.errors`.
    """
    found: list[Repair] = [
        Repair(
            key,
            0,
            f"{reason}: the mirror creates the topic when it runs, but copies old records again "
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
        Repair(each.source, 0, "its copy has grown since the audit: stop the mirror first")
        for each in moved
    ]
    if still:
        # Start at the stored offset, like the mirror, whatever is missing.
        settings = replace(settings, fetch=replace(settings.fetch, auto_offset_reset="none"))
        stay = {each.facts.source: _stays(each) for each in report.partitions}
        found += [replace(each, reason=stay[each.source]) for each in _copied(still, settings)]
    return found


def _stays(partition: PartitionAudit) -> str:
    """Return why differences remain before a partition's end; None if there are none."""
    last = max((result.last_source for result in partition.results), default=-1)
    behind = sum(
        each.records
        for each in partition.differences
        if each.kind is Kind.MISSING and each.source is not None and each.source > last
    )
    left = partition.different - behind
    return f"{left} differing records before the end were not repaired; {_ANEW}" if left > 0 else ""


def _copied(ranges: Sequence[SourceRange], settings: EngineSettings) -> list[Repair]:
    report = RangeReport()
    copy_ranges(settings, ranges, report.add, stop=threading.Event(), stall_s=_STALL_S)
    records = report.records()
    return [Repair(each.source, records[each.source], "") for each in ranges]


def _unchanged(
    target: WireSettings, ranges: Sequence[SourceRange], ends: dict[tuple[str, int], int]
) -> list[SourceRange]:
    """Return the partitions whose copies still end at the end offset of the audit."""
    topics = {each.target[0] for each in ranges}
    with closing(ClusterLink(target, lambda: None, name="audit-repair", topics=topics)) as link:
        keys = [each.target for each in ranges]
        answers = link.list_offsets(keys, LATEST, 1, _LIST_S).result(2 * _LIST_S)
    for answer in answers.values():
        if isinstance(answer, ConnectError):
            raise answer
    return [each for each in ranges if answers[each.target] == ends[each.target]]
