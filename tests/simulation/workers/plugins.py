"""The plugins that simulated configs name. Hosts do their work (`hosts`, `tasks`)."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigDef
from connect.plugin import Connector, SourceTask, TransferTask
from connect.runtime.plugins.registry import PluginRegistry

__all__ = ["SimRecord", "SimSource", "SimTransfer", "plugins"]


class SimSource(Connector):
    """The plugin that configs name; hosts do its work."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    @classmethod
    def live_keys(cls) -> frozenset[str]:
        return frozenset({"rate"})

    def start(self, config: Mapping[str, str]) -> None:
        """Hosts do it."""

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return SimTransfer

    @classmethod
    def task_class_for(cls, config: Mapping[str, str]) -> type | None:
        return SimRecord if config.get("kind") == "record" else SimTransfer

    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        return []

    def stop(self) -> None:
        """Hosts do it."""


class SimTransfer(TransferTask):
    """Can stand still; takes more lanes while it runs."""

    @classmethod
    def only_adds(cls, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        return int(before.get("lanes", "0")) <= int(after.get("lanes", "0")) and {
            **before,
            "lanes": "",
            "round": "",
        } == {**after, "lanes": "", "round": ""}


class SimRecord(SourceTask):
    """Cannot stand still."""


_REGISTRY: list[PluginRegistry] = []


def plugins() -> PluginRegistry:
    """The same for all runs: it never changes."""
    if not _REGISTRY:
        registry = PluginRegistry(discover=False)
        for plugin in (SimSource, SimTransfer, SimRecord):
            registry.register(plugin)
        _REGISTRY.append(registry)
    return _REGISTRY[0]
