"""How an audit is told: how far it is, and what a ledger proves and what it does not."""

from __future__ import annotations

import io

import pytest

from api.cli.output.audit import print_ledger
from api.cli.output.read_progress import ReadProgress, gathering
from connectors.mirror.audit.alignment import Rules
from connectors.mirror.audit.findings import RangeResult
from connectors.mirror.audit.map_check import LedgerCheck, LedgerReport
from connectors.mirror.audit.plan import AuditRange, PartitionFacts
from connectors.mirror.audit.report import AuditReport, PartitionAudit
from connectors.mirror.offsets.offset_map_pages import Segment

FACTS = PartitionFacts(("t", 0), ("a.t", 0), 0, 100, 0, 100, 100)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ranges(count: int, size: int) -> list[AuditRange]:
    return [
        AuditRange(("t", n), ("a.t", n), 0, 9, 0, 9, Rules(), 0, 9, bytes=size)
        for n in range(count)
    ]


def test_progress_tells_bytes_read_and_left_by_what_was_really_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    out = Terminal()
    with ReadProgress("Auditing", {"first": 2_000_000, "second": 2_000_000}, out) as progress:
        progress.note("first", 5_000_000)
    assert "5 MB read, 2 MB left" in out.getvalue()
    assert "done in" in out.getvalue()


def test_a_step_without_a_size_is_named() -> None:
    out = Terminal()
    with gathering("Reading the offset map", out):
        pass
    assert "Reading the offset map" in out.getvalue()


def test_where_there_is_no_terminal_there_is_no_progress() -> None:
    out = io.StringIO()
    with gathering("Reading the offset map", out), ReadProgress("Auditing", {"first": 5}, out):
        pass
    assert out.getvalue() == ""


def told(check: LedgerCheck, results: list[RangeResult], *, whole: bool = False) -> str:
    out = io.StringIO()
    report = AuditReport([PartitionAudit(check.facts, results)], {})
    print_ledger(LedgerReport([check], report, whole), out)
    return out.getvalue()


def test_a_ledger_says_what_its_samples_do_not_prove() -> None:
    text = told(
        LedgerCheck(
            FACTS, 900, accounted=900, copied_again=3, outside=8, segments=[Segment(0, 0, 900)]
        ),
        [RangeResult(n, n + 1, n, n + 1, equal=1) for n in range(100)],
    )
    assert "3 copied again" in text
    assert "accounts for 900 of 900 source offsets; 100 samples" in text
    assert (
        "the 900 records that it maps to target offsets, and 100 records in them are equal" in text
    )
    assert (
        "does not prove that the other records are equal, but damage to 3 % of it or more" in text
    )
    assert "; 8 target offsets outside the ledger were not read." in text


def test_a_ledger_of_which_all_was_read_says_so() -> None:
    check = LedgerCheck(FACTS, 100, accounted=100, segments=[Segment(0, 0, 100)])
    results = [RangeResult(0, 100, 0, 100, equal=100)]
    assert "So all of them are on the target. --mode logs reads everything." in told(check, results)
    whole = told(check, results, whole=True)
    assert "so all of it was read: 100 records are equal, in order, each once." in whole


def test_a_ledger_names_what_it_does_not_account_for_and_what_is_lost() -> None:
    text = told(LedgerCheck(FACTS, 100, accounted=97, unaccounted=[(4, 7)]), [])
    assert "t-0: not accounted for: 4 to 6" in text
    assert "--mode logs compares" in text
    assert "10 are lost at the target's end" in told(LedgerCheck(FACTS, 100, 90, [], 10), [])
