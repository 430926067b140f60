"""What `connect-mirror why GROUP` says of the places of a group on the target."""

from __future__ import annotations

import pytest

from connectors.mirror.failover import MovedOffset
from connectors.mirrormaker.check.why import Verdict
from connectors.mirrormaker.check.why_group import translated
from connectors.mirrormaker.config.precedence import Flow


@pytest.mark.parametrize(
    ("again", "later", "verdict", "words"),
    [
        (0, 0, Verdict.OK, "yes, exactly"),
        (7, 0, Verdict.WARN, "at most 7 records again"),
        (0, 5, Verdict.WARN, "ahead of the copy: it would read at most 5 records again"),
    ],
)
def test_whether_a_group_goes_on_at_the_same_record(
    again: int, later: int, verdict: Verdict, words: str
) -> None:
    row = MovedOffset("g", "t", "a.t", 0, 40, 40, again, has=40, end=40, later=later)
    steps = translated([row], Flow("a", "b"))
    [step] = [each for each in steps if "same record" in each.question]
    assert step.verdict is verdict
    assert words in step.answer
