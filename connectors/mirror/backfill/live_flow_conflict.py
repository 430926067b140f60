"""Decides whether a backfill must not copy partitions because the live flow copies them. Pure."""

from __future__ import annotations

from collections.abc import Collection

from connect.protocol.messages import TopicPartition
from connectors.mirror.backfill.errors import FlowIsRunning
from connectors.mirror.inspect.running_flow import LiveFlow

__all__ = ["refusal"]


def refusal(live: LiveFlow, flow: str, wanted: Collection[TopicPartition]) -> FlowIsRunning | None:
    """Return why these partitions must not be copied now; None if there is no conflict."""
    if not live.members:
        return None
    held = sorted(key for key in wanted if key in live.assigned)
    taken = sorted({topic for topic, _ in wanted if live.takes(topic)})
    if not held and not taken:
        return None
    what = f"{held[0][0]}-{held[0][1]}" if held else f"topic {taken[0]}"
    others = (len(held) if held else len(taken)) - 1
    more = f" and {others} more" if others else ""
    return FlowIsRunning(
        f"{flow} is running ({live.members[0]}) and {'copies' if held else 'would copy'} "
        f"{what}{more}: a simultaneous backfill would break the order. Stop the flow's workers, "
        "or stop the connector by REST (PUT .../stop), or exclude the topic from the flow's "
        "topics until the backfill is done"
    )
