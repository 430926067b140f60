"""Clusters that are too old, or too new, are refused in words a person can act on."""

from __future__ import annotations

from connect.clients.wire.api_versions import ApiNeed, BrokerApis
from connectors.mirror.api_support import exactly_once_refusal, format_refusal, refusal

PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22


def broker(**versions: tuple[int, int]) -> BrokerApis:
    keys = {"produce": PRODUCE, "fetch": FETCH, "init": INIT_PRODUCER_ID}
    return BrokerApis("b:9092", {keys[name]: offered for name, offered in versions.items()})


def test_a_broker_that_speaks_what_is_needed_is_not_refused() -> None:
    kafka_2_5 = broker(produce=(0, 8), fetch=(0, 11), init=(0, 3))
    assert refusal("A", "source", kafka_2_5) is None
    assert refusal("B", "target", kafka_2_5) is None
    assert exactly_once_refusal("B", "B.exactly.once.source.support", kafka_2_5) is None


def test_a_source_that_is_too_old_is_named() -> None:
    assert refusal("A", "source", broker(produce=(0, 7), fetch=(0, 10))) == (
        "Cluster A cannot be mirrored from: its broker b:9092 supports Fetch up to version 10; "
        "version 11 is needed. Upgrade its brokers to Kafka 2.4 or newer"
    )


def test_a_target_that_is_too_old_is_named() -> None:
    assert refusal("B", "target", broker(produce=(0, 7), fetch=(0, 11))) == (
        "Cluster B cannot be mirrored to: its broker b:9092 supports Produce up to version 7; "
        "version 8 is needed. Upgrade its brokers to Kafka 2.4 or newer"
    )


def test_a_cluster_of_tomorrow_asks_for_an_upgrade_of_ours() -> None:
    text = refusal("B", "target", broker(produce=(9, 20)))
    assert text == (
        "Cluster B cannot be mirrored to: its broker b:9092 supports Produce from version 9 on; "
        "version 8 is needed. This release of kafka-connect-mirror is too old for the broker: "
        "upgrade kafka-connect-mirror"
    )


def test_exactly_once_needs_producers_that_say_their_epoch() -> None:
    text = exactly_once_refusal("B", "B.exactly.once.source.support", broker(init=(0, 2)))
    assert text == (
        "Cluster B is too old for exactly-once: its broker b:9092 supports InitProducerId up to "
        "version 2; version 3 is needed (KIP-360). Upgrade its brokers to Kafka 2.5 or newer, or "
        "set B.exactly.once.source.support=disabled"
    )


def test_any_version_within_a_range_will_do() -> None:
    need = ApiNeed(7, "Thing", 2, 4)
    assert BrokerApis("b:1", {7: (4, 9)}).lacks(need) is None
    assert BrokerApis("b:1", {7: (0, 2)}).lacks(need) is None
    assert BrokerApis("b:1", {}).lacks(need) == ("does not support Thing; version 2 is needed")


def test_topics_stored_as_before_kafka_0_11_are_refused() -> None:
    assert format_refusal("0.10.2-IV0") == (
        "uses message format 0.10.2-IV0, for which brokers refuse the mirror's idempotent "
        "producers; set the topic's message.format.version, or the brokers' "
        "log.message.format.version, to 0.11.0 or newer"
    )
    assert format_refusal("0.9.0") is not None
    for taken in ("0.11.0-IV2", "1.0-IV0", "2.8-IV1", "", None):
        assert format_refusal(taken) is None


def test_kafka_3_is_told_from_what_came_before() -> None:
    assert BrokerApis("b:1", {PRODUCE: (0, 9)}).before_3_0
    assert not BrokerApis("b:1", {PRODUCE: (0, 9), 65: (0, 0)}).before_3_0
