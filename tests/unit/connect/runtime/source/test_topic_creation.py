"""Settings of new topics, against what Apache Kafka makes of the same configs
(golden/topic_creation)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError
from connect.runtime.source.topic_creation import parse_topic_groups

GOLDEN = Path(__file__).parents[4] / "golden" / "topic_creation"
CASES = json.loads((GOLDEN / "cases.json").read_text())
RESULTS = json.loads((GOLDEN / "results.json").read_text())


def outcome(config: dict[str, str], topics: list[str]) -> dict[str, Any]:
    try:
        groups = parse_topic_groups(config)
    except ConfigError as error:
        return {"error": str(error)}
    if groups is None:
        return {"topics": None}
    found = [groups.group_of(topic) for topic in topics]
    return {
        "topics": [
            {
                "group": group.name,
                "partitions": group.partitions,
                "replication.factor": group.replication_factor,
                "configs": dict(group.configs),
            }
            for group in found
        ]
    }


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(case, result, id=case["name"])
        for case, result in zip(CASES, RESULTS, strict=True)
    ],
)
def test_topics_get_the_settings_that_java_gives_them(
    case: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert outcome(case["config"], case["topics"]) == expected


def test_a_pattern_that_is_none_is_refused_by_its_key() -> None:
    config = {
        "topic.creation.groups": "g",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.g.include": "a,(b",
    }
    with pytest.raises(ConfigError, match="for configuration include: Syntax error in regular"):
        parse_topic_groups(config)
