"""A user's regular expression cannot stop a worker: it gets 400, which names the pattern."""

from __future__ import annotations

import pytest

from tests.support.workers.standalone_rest import create, standalone_rest

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
    config = {**MIRROR, "connector.class": "MirrorCheckpoint", key: "a+" * 300_000}
    with standalone_rest() as url:
        code, message = create(url, "c", config).error
    assert code == 400
    assert f"configuration {key}: The pattern has 600000 characters, and at most 32768" in message
    assert len(message) < 5000, "the error does not repeat all of it"


@pytest.mark.parametrize("pattern", [r"\p{L}" * 6_000, r"[\p{L}&&\p{L}]" * 2_000, r"\W" * 15_000])
def test_short_names_of_large_classes_are_counted(pattern: str) -> None:
    """To compile the first one took more than ten minutes."""
    with standalone_rest() as url:
        code, message = create(url, "c", {**SINK, "topics.regex": pattern}).error
    assert code == 400
    assert "configuration topics.regex: Invalid regex: The character classes have more" in message


def test_the_patterns_of_one_config_are_limited_together() -> None:
    names = [f"r{number}" for number in range(10)]
    routers = {
        f"transforms.{name}.{key}": value
        for name in names
        for key, value in (
            ("type", "RegexRouter"),
            ("regex", name + "a" * 30_000),
            ("replacement", "x"),
        )
    }
    config = {**SINK, "topics": "t", "transforms": ",".join(names), **routers}
    with standalone_rest() as url:
        code, message = create(url, "c", config).error
    assert code == 400
    assert "Invalid value r8aaa" in message
    assert "Invalid value r7aaa" not in message
    assert "The patterns of one config have more than 262144 characters together" in message


def test_a_pattern_that_takes_too_long_is_named() -> None:
    config = {**SINK, "topics.regex": SLOW, "errors.deadletterqueue.topic.name": TEXT}
    with standalone_rest() as url:
        code, message = create(url, "c", config).error
    assert code == 400
    assert SLOW in message
