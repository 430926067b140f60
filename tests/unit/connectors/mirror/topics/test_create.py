"""Which configs a new topic of the target gets, also where its brokers do not know them all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import pytest

from connect.clients.errors import error_from_code
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigEntry, ConfigSource, TopicCreation
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.errors import ConnectError
from connectors.mirror.filters import DefaultConfigPropertyFilter
from connectors.mirror.topics.create import TopicFailure, apply_plan, copied_configs
from connectors.mirror.topics.selection import MissingTopic, TopicPlan

INVALID_CONFIG, TOPIC_AUTHORIZATION_FAILED = 40, 29


def entry(
    name: str,
    source: ConfigSource = ConfigSource.DYNAMIC_TOPIC_CONFIG,
    *,
    value: str | None = "v",
    read_only: bool = False,
    sensitive: bool = False,
) -> ConfigEntry:
    return ConfigEntry(name, value, source, read_only, sensitive)


def test_what_someone_set_is_copied() -> None:
    entries = [
        entry("retention.ms", value="5000"),
        entry("max.message.bytes", ConfigSource.DYNAMIC_BROKER_CONFIG, value="7"),
        entry("segment.ms", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, value="8"),
    ]
    assert copied_configs(entries, DefaultConfigPropertyFilter({})) == {
        "retention.ms": "5000",
        "max.message.bytes": "7",
        "segment.ms": "8",
    }


def test_what_is_not_the_topics_own_or_is_excluded_is_not_copied() -> None:
    entries = [
        entry("a", ConfigSource.STATIC_BROKER_CONFIG),
        entry("b", read_only=True),
        entry("c", sensitive=True),
        entry("d", value=None),
        entry("min.insync.replicas"),
        entry("e", ConfigSource.DEFAULT_CONFIG),
    ]
    assert copied_configs(entries, DefaultConfigPropertyFilter({})) == {}


def test_the_sources_defaults_are_copied_when_asked_for() -> None:
    entries = [
        entry("retention.ms", ConfigSource.DEFAULT_CONFIG),
        entry("min.insync.replicas", ConfigSource.DEFAULT_CONFIG),
    ]
    properties = DefaultConfigPropertyFilter({"use.defaults.from": "source"})
    assert copied_configs(entries, properties) == {"retention.ms": "v"}


def test_how_the_source_stores_batches_is_never_copied() -> None:
    entries = [entry("message.format.version", value="0.10.2-IV0"), entry("retention.ms")]
    assert copied_configs(entries, DefaultConfigPropertyFilter({})) == {"retention.ms": "v"}
    wide = DefaultConfigPropertyFilter({"config.properties.exclude": "none"})
    assert copied_configs(entries, wide) == {"retention.ms": "v"}


class OtherVersion:
    """The admin of a target that knows some topic configs only."""

    def __init__(self, *known: str, described: bool = True) -> None:
        self._known = known
        self._described = described
        self.topics: dict[str, Mapping[str, str]] = {"existing": {}}
        self.asked = 0
        self.requests: list[list[str]] = []

    def list_topics(self, timeout: float) -> dict[str, int]:
        return dict.fromkeys(self.topics, 1)

    def describe_topic_configs(
        self, names: Collection[str], timeout: float, *, missing_ok: bool = False
    ) -> dict[str, list[ConfigEntry]]:
        self.asked += 1
        if not self._described:
            raise error_from_code(TOPIC_AUTHORIZATION_FAILED, "Describing the configs of existing")
        return {
            name: [entry(each, ConfigSource.DEFAULT_CONFIG) for each in self._known]
            for name in names
        }

    def create_topic(
        self, name: str, partitions: int, factor: int, configs: Mapping[str, str], timeout: float
    ) -> bool:
        if unknown := configs.keys() - set(self._known):
            text = f"Unknown topic config name: {min(unknown)}"
            raise error_from_code(INVALID_CONFIG, f"Creating topic {name}", text)
        if "bad" in configs.values():
            raise error_from_code(INVALID_CONFIG, f"Creating topic {name}", "Invalid value bad")
        self.topics[name] = configs
        return True

    def create_topics(
        self, topics: Sequence[TopicCreation], timeout: float
    ) -> dict[str, bool | ConnectError]:
        self.requests.append([topic.name for topic in topics])
        created: dict[str, bool | ConnectError] = {}
        for topic in topics:
            try:
                created[topic.name] = self.create_topic(
                    topic.name, topic.partitions, topic.replication_factor, topic.configs, timeout
                )
            except ConnectError as error:
                created[topic.name] = error
        return created


def applied(
    target: OtherVersion, configs: Mapping[str, Mapping[str, str]], partitions: int = 1
) -> list[TopicFailure]:
    plan = TopicPlan(tuple(MissingTopic(name, f"A.{name}", partitions) for name in configs))
    threads = OneShotThreads("test")
    try:
        return apply_plan(plan, cast(Admin, target), configs, 1, 10.0, threads)
    finally:
        threads.stop()


def test_configs_that_the_target_does_not_know_are_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = OtherVersion("retention.ms", "cleanup.policy")
    new = {"message.downconversion.enable": "true", "remote.log.copy.disable": "false"}
    failures = applied(
        target, {"a": {"retention.ms": "5", **new}, "b": {"retention.ms": "6"}, "c": new}
    )
    assert failures == []
    assert target.topics["A.a"] == {"retention.ms": "5"}
    assert target.topics["A.b"] == {"retention.ms": "6"}
    assert target.topics["A.c"] == {}
    assert target.asked == 1
    assert (
        "Created topic A.a without message.downconversion.enable, remote.log.copy.disable: the "
        "target's Kafka version does not know this config" in caplog.text
    )


def test_a_value_that_the_target_refuses_is_told_as_it_is() -> None:
    target = OtherVersion("retention.ms")
    (failure,) = applied(target, {"a": {"retention.ms": "bad"}})
    assert "Invalid value bad" in str(failure)
    assert "A.a" not in target.topics


def test_where_the_target_does_not_say_what_it_knows_the_refusal_stands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = OtherVersion("retention.ms", described=False)
    (failure,) = applied(target, {"a": {"newer": "1"}})
    assert isinstance(failure.error, ConnectError)
    assert "Unknown topic config name: newer" in str(failure)
    assert "Cannot find out which topic configs the target knows" in caplog.text


def test_many_topics_are_created_by_few_requests() -> None:
    target = OtherVersion()
    assert applied(target, {f"t{number}": {} for number in range(1_000)}) == []
    assert [len(request) for request in target.requests] == [100] * 10


def test_a_request_stays_below_the_partitions_that_a_controller_takes() -> None:
    target = OtherVersion()
    assert applied(target, {f"t{number}": {} for number in range(40)}, partitions=2_000) == []
    assert sorted(len(request) for request in target.requests) == [2] * 20
    huge = OtherVersion()
    assert applied(huge, {"huge": {}}, partitions=20_000) == []
    assert huge.requests == [["A.huge"]]


def test_a_topic_that_fails_keeps_no_other_of_its_request_from_being_created() -> None:
    target = OtherVersion("retention.ms")
    configs = {f"t{number}": {"retention.ms": "5"} for number in range(100)}
    (failure,) = applied(target, {**configs, "t7": {"retention.ms": "bad"}})
    assert failure.remote == "A.t7"
    assert len(target.topics) == 1 + 99
