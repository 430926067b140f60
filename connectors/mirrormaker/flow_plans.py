"""The flows of an mm2.properties file: their connectors, and what is checked before they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.config.providers import ConfigProviders
from connect.config.secrets import is_secret_name
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError
from connect.runtime.distributed.group_config import DistributedConfig
from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror import plugins as mirror_plugins
from connectors.mirror.config.engine import check_copy_session, copies_on_spark
from connectors.mirror.source.connector import validate_source
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.precedence import MIRROR_CONNECTORS
from connectors.mirrormaker.mirror_flow import FlowPlan
from connectors.mirrormaker.replication_loops import Loop, find_loops
from connectors.spark.properties import DEFAULT_MASTER as DEFAULT_SPARK_MASTER
from connectors.spark.properties import MASTER as SPARK_MASTER
from connectors.spark.properties import check_spark_properties, spark_properties

__all__ = [
    "CHECKPOINT",
    "CONNECTORS",
    "HEARTBEAT",
    "SOURCE",
    "check_source",
    "flow_plugins",
    "loops_of",
    "mirrors",
    "plan_flows",
    "resolved_source_config",
    "worker_topics",
]

SOURCE, HEARTBEAT, CHECKPOINT = MIRROR_CONNECTORS
CONNECTORS = MIRROR_CONNECTORS
"""The order in which MirrorMaker 2 creates connectors."""


def plan_flows(config: MirrorMakerConfig, clusters: Sequence[str] | None = None) -> list[FlowPlan]:
    """Return one plan for each pair of clusters whose target is in `clusters` (None: all).

    Raises `ConfigError`, also if there is nothing to run.
    """
    plans = [
        FlowPlan(
            flow.source,
            flow.target,
            {
                name: props
                for name in CONNECTORS
                if _is_wanted(
                    name, props := config.connector_config(flow.source, flow.target, name)
                )
            },
        )
        for flow in config.flows(clusters)
    ]
    _check_spark([plan for plan in plans if mirrors(plan)])
    return plans


def _check_spark(plans: Sequence[FlowPlan]) -> None:
    """Raise `ConfigError` if flows configure different Spark sessions, or one that cannot exist.

    A flow without `spark.*` uses the session of the others, unless Spark is to copy it: then it
    names the default."""
    named: dict[str, dict[str, str]] = {}
    for plan in plans:
        props = plan.connectors[SOURCE]
        given = spark_properties(props)
        check_spark_properties(given)
        check_copy_session(props)
        if given or copies_on_spark(props):
            named[plan.name] = {SPARK_MASTER: DEFAULT_SPARK_MASTER, **given}
    (one, first), *others = named.items() if named else [("", {})]
    for other, second in others:
        for key in sorted(first.keys() | second.keys()):
            if first.get(key) != second.get(key):
                raise ConfigError(
                    f"{_says(one, key, first)}, {_says(other, key, second)}, but a process has "
                    "one Spark session: set the same for both, or run each flow in a process with "
                    "a file of its own",
                    key=f"{other}.{key}",
                    value=None if is_secret_name(key) else second.get(key),
                )


def _says(flow: str, key: str, props: Mapping[str, str]) -> str:
    """Return a flow's property in words, without values that may be secret."""
    if key not in props:
        return f"{flow} has no {key}"
    return f"{flow} has {key}" if is_secret_name(key) else f"{flow} has {key}={props[key]}"


def _is_wanted(connector: str, props: Mapping[str, str]) -> bool:
    """Whether a flow has this connector. MirrorMaker 2 also submits a checkpoint connector with an
    invalid config, which the worker then rejects."""
    return connector != CHECKPOINT or not any(
        props.get(key, "true").strip().lower() == "false"
        for key in ("emit.checkpoints.enabled", "emit.offset-syncs.enabled")
    )


def resolved_source_config(config: MirrorMakerConfig, plan: FlowPlan) -> dict[str, str]:
    """Return the source connector's config as its worker resolves it. Raises `ConfigError`."""
    worker = config.worker_config(plan.source, plan.target)
    return ConfigProviders.from_properties(worker).resolve(plan.connectors[SOURCE])


def flow_plugins(config: MirrorMakerConfig, plans: Sequence[FlowPlan]) -> PluginRegistry:
    """Return the plugins of these flows' workers, with those of each worker's `plugin.path`."""
    workers = [config.worker_config(plan.source, plan.target) for plan in plans]
    paths = [text.strip() for each in workers for text in each.get("plugin.path", "").split(",")]
    plugins = PluginRegistry(plugin_path=list(dict.fromkeys(filter(None, paths))))
    mirror_plugins.register(plugins)
    if plugins.plugin_path:
        plugins.discover()  # Policies, filters and admin classes in it are found by importing them.
    return plugins


def check_source(config: MirrorMakerConfig, plan: FlowPlan) -> None:
    """Raise `ConfigError` if the source connector's patterns, or its values in combination, are
    invalid. Single values are checked elsewhere."""
    if not mirrors(plan):
        return
    props = resolved_source_config(config, plan)
    for problem in validate_source(props):
        raise ConfigError(f"{plan.name}: {problem.message}", key=problem.key)


def loops_of(config: MirrorMakerConfig, plans: Sequence[FlowPlan]) -> list[Loop]:
    """Return the replication loops among the mirroring flows. Raises `ConfigError` for a wrong
    policy or filter."""
    return find_loops(
        {
            (plan.source, plan.target): resolved_source_config(config, plan)
            for plan in plans
            if mirrors(plan)
        }
    )


def mirrors(plan: FlowPlan) -> bool:
    """Whether the flow copies topics; otherwise it only sends heartbeats."""
    return plan.connectors[SOURCE].get("enabled", "true").strip().lower() == "true"


def worker_topics(worker: WorkerConfig) -> dict[str, TopicSpec]:
    """Return the topics of a flow's workers, by the first word of their keys. Raises
    `ConfigError`."""
    group = DistributedConfig.from_properties(worker.originals)
    offsets = TopicSpec(
        worker.offset_storage_topic,
        worker.offset_storage_partitions,
        worker.offset_storage_replication_factor,
        worker.offset_storage_topic_configs,
    )
    return {"offset": offsets, "status": group.status_topic, "config": group.config_topic}
