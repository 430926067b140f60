"""Which names the default filters let through."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConfigError
from connectors.mirror import filters
from connectors.mirror.filters import (
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
    PatternList,
    TopicFilter,
    config_property_filter,
    group_filter,
    topic_filter,
)


def test_by_default_all_topics_but_mirrorings_and_kafkas_own() -> None:
    topics = DefaultTopicFilter({})
    names = ["t", "A.t", "foo.internal", "foo-internal", "heartbeats"]
    names += ["mm2-offset-syncs.B.internal", "t.replica", "__consumer_offsets"]
    assert [name for name in names if topics.should_replicate_topic(name)] == names[:5]


def test_a_pattern_must_match_the_whole_name() -> None:
    topics = DefaultTopicFilter({"topics": "orders, pay.*"})
    assert topics.should_replicate_topic("orders")
    assert not topics.should_replicate_topic("orders.eu")
    assert topics.should_replicate_topic("payments")


def test_a_list_may_have_more_names_than_a_pattern_may_have_characters() -> None:
    names = [f"team-{n % 90}.orders-{n:05}" for n in range(5_000)]
    topics = DefaultTopicFilter({"topics": ",".join([*names, "pay.*|cash"])})
    for name in (names[0], names[-1], "team-7xorders-00007", "payments", "cash"):
        assert topics.should_replicate_topic(name)
    for name in ("team-7.orders-00008", "orders", "team-7.orders-00007x"):
        assert not topics.should_replicate_topic(name)


@given(
    st.lists(st.sampled_from(["a", "a.b", ".", "..b", "a-b", "b.*", "[ab]+", "(a", "b)", "(?i)A"])),
    st.lists(st.text("abA.-x", max_size=4), max_size=6),
)
def test_a_long_list_means_what_its_joined_pattern_means(
    elements: list[str], names: list[str]
) -> None:
    def matched() -> list[bool] | None:
        try:
            patterns = PatternList("topics", elements)
        except ConfigError:
            return None
        return [patterns.matches(name) for name in names]

    joined = matched()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "LONGEST", 0)
        assert matched() == joined


def test_exclusion_wins_and_is_named() -> None:
    topics = DefaultTopicFilter({"topics": "a.*", "topics.exclude": "x,ab.*"})
    assert not topics.should_replicate_topic("abc")
    assert topics.why_not("abc") == "ab.* in topics.exclude matches it"
    assert topics.why_not("b") == "no element of topics matches it (a.*)"


def test_an_empty_list_matches_nothing() -> None:
    assert not DefaultTopicFilter({"topics": " "}).should_replicate_topic("t")
    everything = DefaultTopicFilter({"topics.exclude": ""})
    assert everything.should_replicate_topic("__consumer_offsets")


def test_elements_are_joined_before_compiling_as_in_java() -> None:
    # The comma splits the class in two elements that are whole again when joined by "|".
    topics = DefaultTopicFilter({"topics": "[a,b]"})
    assert topics.should_replicate_topic("a")
    assert topics.should_replicate_topic("|")
    assert not topics.should_replicate_topic(",")


def test_groups() -> None:
    groups = DefaultGroupFilter({})
    assert groups.should_replicate_group("billing")
    assert not groups.should_replicate_group("console-consumer-17")
    assert not groups.should_replicate_group("connect-sink")


def test_config_properties_are_copied_unless_excluded() -> None:
    properties = DefaultConfigPropertyFilter({})
    assert properties.should_replicate_config_property("retention.ms")
    assert properties.should_replicate_config_property("message.timestamp.before.max.ms")
    assert not properties.should_replicate_config_property("min.insync.replicas")
    assert not properties.should_replicate_source_default("retention.ms")


def test_only_the_exact_word_source_copies_the_sources_defaults() -> None:
    for value, expected in [("source", True), ("Source", False), ("target", False)]:
        properties = DefaultConfigPropertyFilter({"use.defaults.from": value})
        assert properties.should_replicate_source_default("retention.ms") is expected


@pytest.mark.parametrize(
    ("value", "element", "fault"),
    [
        ("ok,*bad", "*bad", "Dangling meta character '*' near index 0"),
        ("a{1,2}", "a{1", "Unclosed counted closure near index 1"),
        ("x(y", "x(y", "Unclosed group near index 1"),
    ],
)
def test_a_wrong_pattern_names_key_element_and_position(
    value: str, element: str, fault: str
) -> None:
    with pytest.raises(ConfigError) as failed:
        DefaultTopicFilter({"topics": value})
    assert f"Invalid value {element} for configuration topics: {fault}" in str(failed.value)
    assert failed.value.key == "topics"


def test_an_empty_element_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'groups\.exclude' values must not be empty"):
        DefaultGroupFilter({"groups.exclude": "a,,b"})


class Evens(TopicFilter):
    def __init__(self, props: Mapping[str, str]) -> None:
        super().__init__(props)
        self.length = int(props["length"])

    def should_replicate_topic(self, topic: str) -> bool:
        return len(topic) == self.length


def test_filters_are_found_by_javas_names_and_by_python_paths() -> None:
    java = "org.apache.kafka.connect.mirror."
    chosen = topic_filter({"topic.filter.class": f"{java}DefaultTopicFilter", "topics": "t"})
    assert chosen.should_replicate_topic("t")
    assert isinstance(group_filter({}), DefaultGroupFilter)
    assert isinstance(config_property_filter({}), DefaultConfigPropertyFilter)
    own = topic_filter({"topic.filter.class": f"{__name__}.Evens", "length": "2"})
    assert own.should_replicate_topic("ab")
    assert own.why_not("a") == "Evens excludes it"
    with pytest.raises(ConfigError, match=r"topic\.filter\.class"):
        topic_filter({"topic.filter.class": "com.acme.Filter"})


def test_plain_names_of_a_list_are_known() -> None:
    patterns = PatternList("topics", ["orders", "pay-.*", "a.b_c-d", "[x]"])
    assert patterns.literals() == ["orders", "a.b_c-d"]
