"""What `check` says of topics whose copies are gone, or are there under another name."""

from __future__ import annotations

import pytest

from connectors.mirror.config.source import SourceConfig
from connectors.mirrormaker.check.renamed_copies import renamed_copies
from connectors.mirrormaker.check.report import Finding, FlowReport, Level, TopicReport

MAP = {"mm2-offset-map.B.internal": 1}
STORED = {("t", 0): 100, ("t", 1): 7, ("u", 0): 0, ("gone", 0): 5}


def flow(*actions: tuple[str, str, str]) -> FlowReport:
    topics = [TopicReport(topic, remote, 2, action) for topic, remote, action in actions]
    return FlowReport("A", "B", True, topics)


def found(
    report: FlowReport,
    target: dict[str, int],
    policy: str = "report",
    map_topics: dict[str, int] = MAP,
) -> list[Finding]:
    return renamed_copies(report, config(policy), STORED, target, map_topics)


def config(policy: str = "report") -> SourceConfig:
    return SourceConfig.from_properties(
        {
            "name": "MirrorSourceConnector",
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": "a:1",
            "target.cluster.bootstrap.servers": "b:1",
            "mirror.loss.policy.target.recreated": policy,
        }
    )


RENAMED = flow(("t", "k.t", "create"))


def test_a_new_name_beside_the_old_one_is_a_changed_policy() -> None:
    (finding,) = found(RENAMED, {"A.t": 2})
    assert (finding.level, finding.subject) == (Level.WARNING, "A->B")
    assert finding.text == (
        "offsets of 2 partitions are stored, but the target lacks the copies: k.t (of t; A.t "
        "exists). Probably replication.policy.* or a transformation that renames topics was "
        "changed; the earlier copies keep their names, and get no more records. The mirror "
        "continues at the stored offsets, without the earlier records; to copy them too, set "
        "mirror.loss.policy.target.recreated=copy for the first run"
    )


def test_without_the_old_name_the_copies_may_have_been_deleted() -> None:
    (finding,) = found(RENAMED, {})
    assert "The copies were deleted, or replication.policy.*" in finding.text


@pytest.mark.parametrize(
    ("policy", "level", "words"),
    [
        ("copy", Level.WARNING, "the mirror copies again everything that the source still has"),
        ("fail", Level.ERROR, "these partitions would stop"),
    ],
)
def test_the_policy_of_losses_decides_what_the_run_does(
    policy: str, level: Level, words: str
) -> None:
    (finding,) = found(RENAMED, {"A.t": 2}, policy)
    assert finding.level is level
    assert words in finding.text


def test_without_an_offset_map_the_offsets_have_to_be_set() -> None:
    (finding,) = found(RENAMED, {"A.t": 2}, map_topics={})
    assert "connect-mirror-client start --timestamp 0 --commit" in finding.text


@pytest.mark.parametrize(
    "report",
    [flow(("t", "A.t", "exists")), flow(("u", "k.u", "create")), flow(("new", "k.new", "create"))],
    ids=["the copy is there", "nothing was copied", "nothing is stored"],
)
def test_nothing_is_said_of_other_topics(report: FlowReport) -> None:
    assert found(report, {"A.t": 2, "A.u": 1}) == []


def test_many_topics_are_counted() -> None:
    report = flow(*((f"t{n}", f"k.t{n}", "create") for n in range(7)))
    props = {f"A.t{n}": 1 for n in range(7)}
    stored = {(f"t{n}", 0): 1 for n in range(7)}
    (finding,) = renamed_copies(report, config(), stored, props, MAP)
    assert "offsets of 7 partitions" in finding.text
    assert "and 2 more" in finding.text
