"""The flows of a process in dedicated mode, as its status pages show them, without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connect.metrics.registry import MetricRegistry
from connect.runtime.connector_status import ConnectorStatus

__all__ = ["ShownFlows"]


class ShownFlows:
    """What the pages show of the flow a->b, which tests set."""

    def __init__(self) -> None:
        self.metrics = MetricRegistry()
        self.connectors: list[ConnectorStatus] = []
        self.reasons: dict[str, str] = {}
        self.properties: dict[str, str] = {}

    def not_ready(self) -> Mapping[str, str]:
        return self.reasons

    def statuses(self) -> Mapping[str, Sequence[ConnectorStatus]]:
        return {"a->b": self.connectors}

    def group_status(self, connector: str) -> Mapping[str, Callable[[], ConnectorStatus]]:
        return {"a->b": lambda: next(c for c in self.connectors if c.name == connector)}

    def source_configs(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        return {("a", "b"): self.properties}

    def app(self) -> Any:
        from api.dedicated.status_pages import create_app

        return create_app(self)
