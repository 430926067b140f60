"""A user's regular expression cannot stop a worker: it gets 400, which names the pattern."""

from __future__ import annotations

import pytest

from tests.support.standalone_rest import create, standalone_rest

SLOW, TEXT = r"(a|aa)+", "a" * 80 + "b"
DEEP = "(" * 5000 + "a" + ")" * 5000
SINK = {"connector.class": "FileStreamSink"}
MIRROR = {
    "connector.class": "MirrorSource",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "127.0.0.1:9",
    "target.cluster.bootstrap.servers": "127.0.0.1:9",
}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({**SINK, "topics.regex": DEEP}, "topics.regex"),
        ({**MIRROR, "topics": DEEP}, "topics"),
        ({**MIRROR, "topics.exclude": DEEP}, "topics.exclude"),
        (
            {
                **SINK,
                "topics": "t",
                "transforms": "r",
                "transforms.r.type": "RegexRouter",
                "transforms.r.regex": DEEP,
                "transforms.r.replacement": "x",
            },
            "regex",
        ),
    ],
)
def test_deep_nesting_is_refused(config: dict[str, str], key: str) -> None:
    with standalone_rest() as url:
        code, message = create(url, "c", config).error
    assert code == 400
    assert key in message
    assert "Nested more than 100 levels deep" in message


@pytest.mark.parametrize("key", ["topics", "topics.exclude", "groups"])
def test_a_pattern_that_takes_too_long_to_compile_is_refused(key: str) -> None:
    config = {**MIRROR, "connector.class": "MirrorCheckpoint", key: "a" * 600_000}
    with standalone_rest() as url:
        code, message = create(url, "c", config).error
    assert code == 400
    assert f"configuration {key}" in message
    assert "Patterns of more than 500000 characters are not supported" in message


def test_a_pattern_that_takes_too_long_is_named() -> None:
    config = {**SINK, "topics.regex": SLOW, "errors.deadletterqueue.topic.name": TEXT}
    with standalone_rest() as url:
        code, message = create(url, "c", config).error
    assert code == 400
    assert SLOW in message
