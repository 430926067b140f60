"""Of which topics `clusters` and `topics` say that the user may not describe them."""

from __future__ import annotations

from api.cli.hidden_topics import expected_topics
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.required_permissions import Feature

BASE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
    "A->B.topics": "orders, pay-[0-9]+",
    "B->A.emit.heartbeats.enabled": "false",
}


def config(**changed: str) -> MirrorMakerConfig:
    return MirrorMakerConfig.from_properties({**BASE, **changed})


def test_they_are_those_that_the_flows_write_and_the_listing_would_show() -> None:
    beats = {"heartbeats", "A.heartbeats"}
    assert expected_topics(config(), "B", Feature.CLUSTERS) == beats
    of_topics = beats | {"A.checkpoints.internal", "A.orders"}
    assert expected_topics(config(), "B", Feature.TOPICS) == of_topics
    assert not expected_topics(config(), "A", Feature.TOPICS)


def test_what_is_switched_off_is_not_expected() -> None:
    off = ("emit.heartbeats", "heartbeats.replication", "emit.checkpoints")
    without = config(**{f"{feature}.enabled": "false" for feature in off})
    assert not expected_topics(without, "B", Feature.CLUSTERS)
    assert expected_topics(without, "B", Feature.TOPICS) == {"A.orders"}


def test_a_flow_that_cannot_run_expects_nothing() -> None:
    assert not expected_topics(config(**{"A->B.offset.lag.max": "x"}), "B", Feature.TOPICS)
