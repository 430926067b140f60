"""Classes and versions of connectors and tasks, for metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect.config.worker import WorkerConfig
from connect.data.converters.base import Converter
from connect.data.transforms.base import Predicate, Transformation
from connect.errors import ConfigError
from connect.metrics.task_metrics import PluginAlias
from connect.plugin import Connector
from connect.runtime.plugins.registry import PluginRegistry

__all__ = ["connector_facts", "plugin_aliases", "task_facts"]


def connector_facts(plugins: PluginRegistry, connector: type[Connector]) -> dict[str, str]:
    """Return `connector-class`, `connector-type` and `connector-version`."""
    return {
        "connector-class": plugins.name_of(connector),
        "connector-type": connector.connector_type(),
        "connector-version": plugins.version_of(connector),
    }


def task_facts(
    plugins: PluginRegistry, task: type, config: Mapping[str, str], worker: WorkerConfig
) -> dict[str, str]:
    """Return the facts of a task's connector, and class and version of the task and its converters.

    Raises `ConfigError` for a missing class.
    """
    facts = connector_facts(plugins, plugins.connector(config["connector.class"]))
    facts["task-class"] = plugins.name_of(task)
    facts["task-version"] = plugins.version_of(task)
    for use, default in (
        ("key", worker.key_converter),
        ("value", worker.value_converter),
        ("header", worker.header_converter),
    ):
        key = f"{use}.converter"
        try:
            converter = plugins.find(Converter, config.get(key) or default, key)
        except ConfigError:
            # A transfer task does not use converters, and runs without them.
            continue
        facts[f"{use}-converter-class"] = plugins.name_of(converter)
        facts[f"{use}-converter-version"] = plugins.version_of(converter)
    return facts


def plugin_aliases(plugins: PluginRegistry, config: Mapping[str, str]) -> list[PluginAlias]:
    """Return the transformations of a connector's config and the predicates they use.

    Raises `ConfigError` for a missing class.
    """
    found = []
    predicates = []
    for alias in _listed(config.get("transforms", "")):
        key = f"transforms.{alias}.type"
        plugin: type = plugins.find(Transformation, config.get(key, "").strip(), key)
        found.append(_alias(plugins, "transform", alias, plugin))
        predicate = config.get(f"transforms.{alias}.predicate", "").strip()
        if predicate:
            predicates.append(predicate)
    for alias in dict.fromkeys(predicates):
        key = f"predicates.{alias}.type"
        plugin = plugins.find(Predicate, config.get(key, "").strip(), key)
        found.append(_alias(plugins, "predicate", alias, plugin))
    return found


def _alias(plugins: PluginRegistry, kind: str, alias: str, plugin: type) -> PluginAlias:
    return PluginAlias(kind, alias, plugins.name_of(plugin), plugins.version_of(plugin))


def _listed(text: str) -> Iterable[str]:
    return dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
