"""What an audit's repair copies again, and why it leaves the rest alone."""

from __future__ import annotations

import pytest

from connect.clients.groups.describe_group import GroupPeer
from connectors.mirror.audit.auditor import AuditSetup
from connectors.mirror.audit.findings import LISTED, Difference, Kind, RangeResult
from connectors.mirror.audit.plan import PartitionFacts
from connectors.mirror.audit.planner import AuditPlan, FlowToAudit
from connectors.mirror.audit.repair import repair, what_to_copy
from connectors.mirror.audit.report import AuditReport, PartitionAudit
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.inspect.running_flow import LiveFlow

SOURCE, TARGET = ("t", 0), ("a.t", 0)
AT_THE_END = Difference(Kind.MISSING, 80, None, 20)


def audited(
    *found: Difference, last: tuple[int, int] = (79, 79), position: int | None = 100
) -> PartitionAudit:
    result = RangeResult(0, 100, 0, 80, equal=80, last_source=last[0], last_target=last[1])
    result.add(list(found))
    return PartitionAudit(PartitionFacts(SOURCE, TARGET, 0, 100, 0, 80, position), [result])


def test_what_is_missing_at_the_end_is_copied_from_there_to_the_stored_position() -> None:
    end = SourceRange(SOURCE, TARGET, 80, 100)
    assert what_to_copy(audited(AT_THE_END)) == end
    assert what_to_copy(audited(Difference(Kind.MISSING, 7, None, 3), AT_THE_END)) == end
    nothing = Difference(Kind.MISSING, 0, None, 100)
    assert what_to_copy(audited(nothing, last=(-1, -1))) == SourceRange(SOURCE, TARGET, 0, 100)
    assert "is unknown" in str(what_to_copy(audited(AT_THE_END, position=None)))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([Difference(Kind.MISSING, 7, None, 3)], "not at the end"),
        ([Difference(Kind.CHANGED, 7, 7)], "not at the end"),
        ([Difference(Kind.EXTRA, None, 80), AT_THE_END], "are not the next ones of the source"),
        (
            [Difference(Kind.MISSING, n, None) for n in range(0, 2 * LISTED, 2)],
            "are not the next ones of the source",
        ),
    ],
)
def test_what_would_break_the_order_is_left_alone(found: list[Difference], why: str) -> None:
    reason = what_to_copy(audited(*found))
    assert isinstance(reason, str)
    assert why in reason
    assert "delete the copy and reset" in reason


def test_nothing_is_copied_beside_a_mirror_that_runs() -> None:
    live = LiveFlow([GroupPeer("m", "c", "/10.0.0.7")], frozenset({SOURCE}), lambda _: False)
    plan, report = AuditPlan(AuditSetup({}, {})), AuditReport([audited(AT_THE_END)], {})
    (told,) = repair(FlowToAudit({}), plan, report, live)
    assert (told.copied, "10.0.0.7): stop it first" in told.reason) == (0, True)
    assert not LiveFlow((), live.assigned, live.takes).copies(SOURCE)
    assert not live.copies(("other", 0))
