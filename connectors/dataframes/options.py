"""The options of the data source, and the flow that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from connect.config.java_regex import JavaRegexError, compile_java_regex
from connect.config.types import SecretStr
from connect.errors import ConfigError
from connectors.dataframes.schemas import SCHEMAS
from connectors.mirror.config.source import SourceConfig

__all__ = ["CONFIG", "FLOW", "TOPICS", "FrameFlow", "open_flow", "table_name"]

TABLE, CONFIG, FLOW, TOPICS = "path", "config", "flow", "topics"
"""Spark calls the argument of `load` path."""

_OPTIONS = (TABLE, CONFIG, FLOW, TOPICS)


@dataclass(frozen=True, slots=True)
class FrameFlow:
    """A flow as tasks need it; Spark sends it to executors inside the tasks. `properties`: the
    resolved properties of its source connector. `offsets_topic`: the topic of its source offsets,
    which is read with `offsets_client`. `history_url`: as the driver's host sees it. `topics`: a
    Java pattern for the topics to audit."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    offsets_topic: str
    offsets_client: Mapping[str, str] = field(repr=False)
    history_url: SecretStr
    topics: str | None = None

    @property
    def config(self) -> SourceConfig:
        return SourceConfig.from_properties(self.properties)

    @property
    def aliases(self) -> tuple[str, str]:
        """Return the aliases of source and target."""
        config = self.config
        return config.source_cluster_alias, config.target_cluster_alias


def table_name(options: Mapping[str, str]) -> str:
    """Return the table that is to be loaded. Raises `ConfigError` for it and for other options."""
    tables = ", ".join(SCHEMAS)
    name = options.get(TABLE)
    if not name:
        raise ConfigError(f'No table is named: call load("lag"), or another of {tables}', key=TABLE)
    if name not in SCHEMAS:
        raise ConfigError(f"Unknown table {name}: load one of {tables}", key=TABLE)
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        known = ", ".join(_OPTIONS[1:])
        raise ConfigError(
            f"Unknown option {unknown[0]} of the data source: use {known}", key=unknown[0]
        )
    if TOPICS in options and name != "audit":
        raise ConfigError(
            f"Option {TOPICS} is for the table audit: filter {name} by its column topic", key=TOPICS
        )
    try:
        compile_java_regex(options.get(TOPICS, ""))
    except JavaRegexError as error:
        raise ConfigError(
            f"Option {TOPICS}={options[TOPICS]} is not a valid Java regular expression: {error}",
            key=TOPICS,
        ) from None
    return name


def open_flow(options: Mapping[str, str]) -> FrameFlow:
    """Read the file and return the flow. Raises `ConfigError`."""
    # Imported here, because executors import this module and need neither.
    from connectors.mirror.inspect.flow import DedicatedFlow
    from connectors.mirrormaker.flow_lookup import named_flow

    path = options.get(CONFIG)
    if not path:
        raise ConfigError(
            f"Option {CONFIG} is missing: set it to the path of the flow's mm2.properties on the "
            "Spark driver's host",
            key=CONFIG,
        )
    if not Path(path).is_file():
        raise ConfigError(
            f"Option {CONFIG}={path}: there is no such file on the Spark driver's host (looked in "
            f"{Path.cwd()}): set the absolute path of the flow's mm2.properties",
            key=CONFIG,
        )
    named = named_flow(Path(path), options.get(FLOW), option=f"option {FLOW}")
    dedicated = DedicatedFlow(named.name, named.properties, named.worker)
    return FrameFlow(
        named.name,
        {k: v for k, v in named.properties.items() if not k.startswith("spark.")},
        dedicated.offsets_topic.name,
        dedicated.client("data-source"),
        dedicated.config.mirror_history_url,
        options.get(TOPICS),
    )
