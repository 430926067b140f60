"""Which topics the two options mean."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.mirrormaker1.topics import TopicList

ALL = ["__consumer_offsets", "orders", "orders-eu", "pay.in", "pay.out", "__mine"]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("orders", ["orders"]),
        ("orders, pay.in", ["orders", "pay.in"]),
        ("orders|pay\\..*", ["orders", "pay.in", "pay.out"]),
        ('"pay.*"', ["pay.in", "pay.out"]),
        (".*", ["__mine", "orders", "orders-eu", "pay.in", "pay.out"]),
        ("__consumer_offsets", []),
        ("\\Qpay.in\\E", ["pay.in"]),
    ],
)
def test_a_whole_name_must_match_and_a_comma_means_or(text: str, chosen: list[str]) -> None:
    assert TopicList("--include", text).choose(ALL) == chosen


def test_topics_are_named_one_by_one_or_by_a_pattern() -> None:
    assert TopicList("--include", "orders, pay.in|eu-.*").named == {"orders", "pay.in"}
    assert TopicList("--exclude", "orders", excludes=True).named == frozenset()


def test_an_exclude_list_leaves_out_internal_topics_too() -> None:
    topics = TopicList("--exclude", "pay.*", excludes=True)
    assert topics.choose(ALL) == ["__mine", "orders", "orders-eu"]


def test_the_internal_topics_that_a_pattern_meets_are_named() -> None:
    assert "__consumer_offsets" in TopicList("--include", ".*").internal
    assert TopicList("--include", "orders").internal == []


@pytest.mark.parametrize("text", ["", " , ".replace(",", ""), "orders[", "(a"])
def test_an_invalid_list_is_refused_with_its_option(text: str) -> None:
    with pytest.raises(ConfigError, match="--include"):
        TopicList("--include", text)
