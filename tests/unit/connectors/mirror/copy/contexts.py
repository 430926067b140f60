"""The context of a copy engine's part that is tested alone, and what the part posts to it."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from connect.clients.cluster.cluster_access import ClusterAccess, OpenCluster
from connect.clients.config.settings import WireSettings
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import Clock
from connectors.mirror.copy.context import CopyContext, CopyListener, EngineEnvironment, OnAcked
from connectors.mirror.copy.settings import EngineSettings

__all__ = ["WIRE", "context", "posted"]

WIRE = WireSettings(bootstrap=(("broker", 1),), client_id="test")

E = TypeVar("E")


def context(
    loop: SelectorLoop,
    clock: Clock,
    source: object,
    target: object,
    acked: OnAcked = lambda *_: None,
    *,
    listener: CopyListener | None = None,
    **settings: Any,
) -> CopyContext:
    """A context between two stand-ins of clusters. `settings`: those of the engine. `acked`: of the
    listener, if there is no other."""

    def open_cluster(_: WireSettings, on_change: object, clock: Clock, name: str) -> ClusterAccess:
        return cast("ClusterAccess", source if name == "mirror-source" else target)

    return CopyContext(
        EngineSettings(WIRE, WIRE, **settings),
        listener or CopyListener(acked=acked),
        EngineEnvironment(clock, cast("OpenCluster", open_cluster), loop),
    )


def posted(context: CopyContext, kind: type[E]) -> list[E]:
    """The events of this kind that nobody has handled."""
    return [event for event in context.events if isinstance(event, kind)]
