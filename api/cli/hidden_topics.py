"""Names the topics that `clusters` and `topics` leave out because the user may not describe them: a
listing does so without a word."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from connect.errors import ConfigError
from connectors.mirror.client import MirrorClient
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import mirrors, plan_flows
from connectors.mirrormaker.mirror_flow import FlowPlan
from connectors.mirrormaker.permissions import flow_features, flow_names
from connectors.mirrormaker.required_permissions import Feature, required_permissions

__all__ = ["expected_topics", "warn_of_hidden"]

Listing = Literal[Feature.CLUSTERS, Feature.TOPICS]


def expected_topics(config: MirrorMakerConfig, target: str, listing: Listing) -> set[str]:
    """Return the topics on a cluster that the flows of the file write, and that the listing would
    show; without those that only a pattern names."""
    try:
        plans = filter(mirrors, plan_flows(config, [target]))
        return {name for plan in plans for name in _written(config, plan, listing)}
    except ConfigError:
        # The listing needs no flow that could run.
        return set()


def _written(config: MirrorMakerConfig, plan: FlowPlan, listing: Listing) -> Iterator[str]:
    features, names = flow_features(config, plan), flow_names(config, plan)
    written = replace(
        names,
        heartbeats=names.heartbeats if Feature.HEARTBEATS in features else "",
        copied_heartbeats=names.copied_heartbeats if Feature.COPIED_HEARTBEATS in features else "",
        checkpoints=names.checkpoints if Feature.GROUP_OFFSETS in features else "",
    )
    for each in required_permissions(written, {listing}):
        if not each.pattern.prefixed and each.pattern.name != "*":
            yield each.pattern.name


def warn_of_hidden(client: MirrorClient, expected: set[str]) -> None:
    """Print a line for each of these topics that the client may not describe. Raises one of
    `connect.errors`."""
    for topic in sorted(client.hidden_topics(expected)):
        print(
            f"connect-mirror-client: topic {topic} is not listed if it exists, because this user "
            f"may not describe it; grant Describe on topic {topic}",
            file=sys.stderr,
        )
