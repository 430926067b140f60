"""What `connect-mirror why GROUP` says of the places of a group on the target."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli.connect_mirror.why import print_explanations
from connectors.mirror.failover import MovedOffset
from connectors.mirrormaker.check.why import Explanation, Verdict
from connectors.mirrormaker.check.why_group import translated, why_group
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
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


@pytest.mark.parametrize(("has", "told"), [(None, "has none"), (30, "has 30")])
def test_offsets_that_are_not_committed_yet_have_a_remedy(has: int | None, told: str) -> None:
    row = MovedOffset("g", "t", "a.t", 0, 40, 40, 0, has=has, end=40)
    steps = translated([row], Flow("a", "b"))
    [step] = [each for each in steps if "up to date" in each.question]
    assert step.answer == f"not yet: a.t-0 {told}, should be 40"
    assert "connect-mirror translate --commit" in step.remedy


FILE = """clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
"""
EMITTED = "ok    Are checkpoints emitted? yes"
SELECTED = "ok    Does the flow select the group? yes [groups, default]"
NOT_COMMITTED = (
    "warn  Are the group's offsets committed on the target? no: offsets are only translated into "
    "checkpoints [sync.group.offsets.enabled, default]\n"
    "      -> Set sync.group.offsets.enabled=true, or commit them at the failover with "
    "connect-mirror translate"
)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("", [EMITTED, SELECTED, NOT_COMMITTED]),
        (
            "sync.group.offsets.enabled = true\n",
            [
                EMITTED,
                SELECTED,
                "ok    Are the group's offsets committed on the target? yes "
                "[sync.group.offsets.enabled, line 5]",
            ],
        ),
        (
            "a->b.emit.checkpoints.enabled = false\n",
            [
                "STOP  Are checkpoints emitted? no [a->b.emit.checkpoints.enabled, line 5]\n"
                "      -> Set a->b.emit.checkpoints.enabled=true",
            ],
        ),
        (
            "groups = shop.*\n",
            [
                EMITTED,
                "STOP  Does the flow select the group? no: no element of groups matches it "
                "(shop.*) [groups, line 5]\n"
                "      -> Add it to groups",
            ],
        ),
        (
            "a->b.groups.exclude = bill.*\n",
            [
                EMITTED,
                "STOP  Does the flow select the group? no: bill.* in groups.exclude matches it "
                "[a->b.groups.exclude, line 5]\n"
                "      -> Change a->b.groups.exclude",
            ],
        ),
    ],
)
def test_each_answer_of_the_file_has_its_key_and_line(
    lines: str, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + lines)
    found = why_group(MirrorMakerConfig.from_file(path), Flow("a", "b"), "billing")
    enabled, *steps = found.steps
    assert (enabled.verdict, enabled.key, enabled.line) == (Verdict.OK, "a->b.enabled", 4)
    if steps[-1].key is None:
        # Nobody answers where the file has decided nothing against it.
        last = steps.pop()
        assert last.verdict is Verdict.STOP
        assert "127.0.0.1:1" in last.answer
    print_explanations([Explanation("billing", "group", "a->b", steps)], None)
    heading, *printed = capsys.readouterr().out.strip().splitlines()
    assert heading == "== group billing in flow a->b"
    assert printed == "\n".join(told).splitlines()
