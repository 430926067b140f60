"""An mm2.properties file: its clusters and flows, and the configs of their workers and connectors.

The precedence is MirrorMaker 2's (`connectors.mirrormaker.config.precedence`), with two
differences: a worker's `offset.flush.interval.ms` is 5000 unless set (Java: 60000), and
`metrics.listener` and `mirror.otlp.endpoint` are additional keys. All returned configs may contain
secrets. The `effective_*` methods show where each value came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from connect.clients.config.properties import (
    fetch_settings,
    librdkafka_config,
    produce_settings,
    wire_settings,
)
from connect.config.definition import ConfigDef, ConfigKey, Importance
from connect.config.otlp_keys import OTLP_ENDPOINT
from connect.config.properties import Property, read_properties
from connect.config.providers import ConfigProviders
from connect.config.rest_access_keys import ALLOWED_HOSTS_KEY
from connect.config.types import ConfigType, invalid_value
from connect.config.validators import ValidList
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError
from connect.runtime.distributed.group_config import DistributedConfig
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.heartbeat import HeartbeatConfig
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.history.database import check_history
from connectors.mirrormaker.config.legacy_keys import rename_legacy_keys
from connectors.mirrormaker.config.precedence import (
    MIRROR_CONNECTORS,
    Flow,
    Setting,
    client_settings,
    cluster_settings,
    connector_settings,
    values,
    worker_settings,
)
from connectors.mirrormaker.config.warnings import advise, comment_problem, line_of

__all__ = ["MAKER_CONFIG_DEF", "Flow", "MirrorMakerConfig", "Setting"]

HEARTBEAT_CONNECTOR = "MirrorHeartbeatConnector"
DEFAULT_METRICS_LISTENER = "http://127.0.0.1:9404"

MAKER_CONFIG_DEF = ConfigDef(
    [
        ConfigKey(
            "clusters",
            ConfigType.LIST,
            validator=ValidList(allow_empty=False),
            importance=Importance.HIGH,
            doc=(
                "Aliases of the clusters. `<alias>.bootstrap.servers` sets each cluster's "
                "addresses."
            ),
        ),
        ConfigKey(
            "config.providers",
            ConfigType.LIST,
            (),
            ValidList(),
            Importance.LOW,
            "Aliases of the config providers that resolve `${alias:path:key}` in values.",
        ),
        ConfigKey(
            "dedicated.mode.enable.internal.rest",
            ConfigType.BOOLEAN,
            False,
            importance=Importance.HIGH,
            doc="Whether the workers of a flow communicate over REST.",
        ),
        ALLOWED_HOSTS_KEY,
        ConfigKey(
            "metrics.listener",
            ConfigType.STRING,
            DEFAULT_METRICS_LISTENER,
            importance=Importance.LOW,
            doc=(
                "Listener that serves /metrics, as http://host:port; empty: none. If the default "
                "port is taken, any free one. Not a key of MirrorMaker 2."
            ),
        ),
        OTLP_ENDPOINT,
    ]
)


class MirrorMakerConfig:
    """One mm2.properties file. Immutable, so threads may share it.

    `warnings` lists keys that are outdated, have no effect on their level, or look like typos.
    """

    def __init__(self, settings: Mapping[str, Setting], warnings: Sequence[str] = ()) -> None:
        """Use `from_file` or `from_properties` instead. Raises ConfigError for invalid top-level
        values."""
        self._settings, renamed = rename_legacy_keys(settings)
        self._providers = ConfigProviders.from_properties(values(self._settings))
        resolved = self._providers.resolve_for_now(values(self._settings))
        self.valid_s = resolved.ttl_s
        """How long the values of config providers are valid, in seconds; None: without limit."""
        parsed = MAKER_CONFIG_DEF.parse(resolved.values)
        self.clusters = parsed.strings("clusters")
        self.enable_internal_rest = parsed.boolean("dedicated.mode.enable.internal.rest")
        self.metrics_listener = parsed.string("metrics.listener")
        self.chooses_listener = "metrics.listener" in self._settings
        """Whether the file names the address; otherwise it is the default."""
        self.allowed_hosts = parsed.strings(ALLOWED_HOSTS_KEY.name)
        """Host names by which clients may call the pages of `metrics.listener`."""
        self.otlp_endpoint = parsed.optional_string(OTLP_ENDPOINT.name)
        self.warnings: tuple[str, ...] = (
            *warnings,
            *renamed,
            *advise(self._settings, self.clusters),
            *self._flow_warnings(),
        )

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> MirrorMakerConfig:
        """Build a config from keys and values without line numbers."""
        return cls({key: Setting(value, key) for key, value in props.items()})

    @classmethod
    def from_file(cls, path: Path) -> MirrorMakerConfig:
        """Read a config from a file and keep the line numbers. Raises ConfigError."""
        return cls.from_entries(read_properties(path))

    @classmethod
    def from_entries(cls, entries: Sequence[Property]) -> MirrorMakerConfig:
        """Build a config from a file's entries. If a key is repeated, the last entry counts."""
        settings: dict[str, Setting] = {}
        warnings = []
        for entry in entries:
            if entry.key in settings:
                warnings.append(
                    f"{entry.key} is set on line {settings[entry.key].line} and again on line "
                    f"{entry.line}; the last one is used"
                )
            settings[entry.key] = Setting(entry.value, entry.key, entry.line)
        return cls(settings, warnings)

    def flows(self, targets: Sequence[str] | None = None) -> list[Flow]:
        """Return the flows into `targets` (None: every cluster) that mirror or at least send
        heartbeats.

        Raises ConfigError if there are none, or if one of their clusters has no
        `bootstrap.servers`.
        """
        for alias in targets or ():
            if alias not in self.clusters:
                raise invalid_value(
                    "--clusters", alias, f"must be one of clusters={','.join(self.clusters)}"
                )
        found = [
            flow
            for source in self.clusters
            for target in self.clusters
            if source != target
            and (targets is None or target in targets)
            and self._runs(flow := Flow(source, target))
        ]
        if not found:
            into = f" into {', '.join(targets)}" if targets else ""
            raise ConfigError(
                f"Nothing to run{into}: no flow between clusters={','.join(self.clusters)} is "
                "enabled; set for example <source>-><target>.enabled=true",
                key="clusters",
            )
        for flow in found:
            self._need_bootstrap(flow)
        return found

    def mirrors(self, flow: Flow) -> bool:
        """Whether the flow copies topics; otherwise it sends heartbeats only."""
        return self._flag(f"{flow}.enabled") is True

    def effective_worker(self, source: str, target: str) -> dict[str, Setting]:
        """Return the worker's settings with their origins, for display; config providers are not
        resolved."""
        return worker_settings(self._settings, Flow(source, target))

    def effective_connector(self, source: str, target: str, connector: str) -> dict[str, Setting]:
        """Return a connector's settings with their origins, for display; not resolved."""
        return connector_settings(self._settings, Flow(source, target), connector)

    def worker_config(self, source: str, target: str) -> dict[str, str]:
        """Return the worker's resolved properties for a flow."""
        raw = values(self.effective_worker(source, target))
        resolved = self._providers.resolve(raw)
        return {
            key: raw[key] if key.startswith("config.providers") else value
            for key, value in resolved.items()
        }

    def connector_config(self, source: str, target: str, connector: str) -> dict[str, str]:
        """Return a connector's unresolved properties, as a worker receives and stores them.
        `connector`: its simple class name."""
        return values(self.effective_connector(source, target, connector))

    def rest_config(self) -> dict[str, str]:
        """Return the resolved properties of the internal REST, from the top level."""
        return self._providers.resolve(values(self._settings))

    def client_config(self, alias: str) -> dict[str, str]:
        """Return the resolved properties for a program that only reads from a cluster."""
        return self._providers.resolve(values(client_settings(self._settings, alias)))

    def changed(self, other: MirrorMakerConfig) -> list[str]:
        """Return the keys, as written in the files, whose values differ or that only one of the
        configs sets."""
        mine, others = self._settings, other._settings
        return sorted(
            (mine.get(key) or others[key]).key
            for key in mine.keys() | others.keys()
            if key not in mine or key not in others or mine[key].value != others[key].value
        )

    def validate(self, targets: Sequence[str] | None = None) -> None:
        """Check every value that the flows use, including key stores, without connecting.

        Raises ConfigError for the first invalid one, with the key as written in the file.
        """
        for flow in self.flows(targets):
            worker = self.effective_worker(*flow)
            self._check(flow, worker, self.worker_config(*flow), _check_worker, ("", "producer."))
            for connector in MIRROR_CONNECTORS:
                if connector == HEARTBEAT_CONNECTOR or self.mirrors(flow):
                    effective = self.effective_connector(*flow, connector)
                    resolved = self._providers.resolve(values(effective))
                    check = _CHECKS[connector]
                    self._check(flow, effective, resolved, check, _CLIENT_PREFIXES)

    def _check(
        self,
        flow: Flow,
        effective: Mapping[str, Setting],
        resolved: Mapping[str, str],
        check: Callable[[Mapping[str, str]], None],
        prefixes: Sequence[str],
    ) -> None:
        """Run `check`. If it fails, raise an error with the key in the file that the invalid value
        came from."""
        try:
            check(resolved)
        except ConfigError as error:
            if error.key is None:
                raise
            found = [key for prefix in prefixes if (key := f"{prefix}{error.key}") in effective]
            # The key may be set on several levels, with only one invalid value.
            wrong = [key for key in found if resolved[key].strip() == error.value] or found
            if not wrong or not effective[wrong[0]].key:
                where = f"Cluster {flow.target}" if check is _check_worker else str(flow)
                raise ConfigError(f"{where}: {error}", key=error.key, value=error.value) from error
            setting = effective[wrong[0]]
            where = "" if setting.line is None else f" (line {setting.line})"
            message = str(error).replace(error.key, f"{setting.key}{where}", 1)
            value = error.value
            if resolved[wrong[0]] != setting.value:
                # A config provider may return a secret, so the error shows the reference instead.
                message = message.replace(resolved[wrong[0]].strip() or "\0", setting.value)
                value = setting.value
            raise ConfigError(message, key=setting.key, value=value) from None

    def _need_bootstrap(self, flow: Flow) -> None:
        for alias in (flow.source, flow.target) if self.mirrors(flow) else (flow.target,):
            given = cluster_settings(self._settings, alias).get("bootstrap.servers")
            if given is None or not given.value.strip():
                key = f"{alias}.bootstrap.servers"
                raise ConfigError(
                    f'Missing required configuration "{key}" which has no default value.', key=key
                )

    def _runs(self, flow: Flow) -> bool:
        if self.mirrors(flow):
            return True
        own = self._flag(f"{flow}.emit.heartbeats.enabled")
        if own is not None:
            return own
        everywhere = self._flag("emit.heartbeats.enabled")
        return everywhere is not False

    def _flag(self, key: str) -> bool | None:
        setting = self._settings.get(key)
        if setting is None:
            return None
        value = self._providers.resolve({key: setting.value})
        try:
            return ConfigDef([ConfigKey(key, ConfigType.BOOLEAN)]).parse(value).boolean(key)
        except ConfigError as error:
            text = str(error).replace(key, f"{key}{line_of(setting)}", 1)
            hint = comment_problem(key, setting)
            more = "" if hint is None else f". It {hint}"
            raise ConfigError(f"{text}{more}", key=key, value=error.value) from None

    def _flow_warnings(self) -> list[str]:
        pairs = [Flow(a, b) for a in self.clusters for b in self.clusters if a != b]
        found = []
        if pairs and not any(self.mirrors(flow) for flow in pairs):
            found.append(
                f"no flow is enabled, so only heartbeats are sent; set {pairs[0]}.enabled=true "
                "to mirror"
            )
        separator = self._settings.get("replication.policy.separator", Setting(".")).value.strip()
        found.extend(
            f"the alias {alias} contains the separator {separator}: its topics on other clusters "
            "cannot be told apart; choose another alias"
            for alias in self.clusters
            if separator and separator in alias
        )
        return found


# Prefixes of the properties of a connector's clients, highest precedence first.
_CLIENT_PREFIXES = (
    "",
    "source.consumer.",
    "source.admin.",
    "source.producer.",
    "target.admin.",
    "target.producer.",
    "consumer.",
    "admin.",
    "producer.",
    "producer.override.",
    "source.cluster.",
    "target.cluster.",
)


def _check_worker(config: Mapping[str, str]) -> None:
    worker = WorkerConfig.from_properties(config)
    DistributedConfig.from_properties(config)
    librdkafka_config(worker.own_client_properties("offsets"), "producer")
    producer = worker.task_producer_properties("check")
    librdkafka_config(producer, "producer")
    produce_settings(producer)


def _check_source(config: Mapping[str, str]) -> None:
    SourceConfig.from_properties(config)
    check_history(config)
    consumer = client_configs.source_consumer(config)
    fetch_settings(consumer)
    wire_settings(consumer)
    librdkafka_config(consumer, "consumer")
    librdkafka_config(client_configs.source_admin(config), "admin")
    librdkafka_config(client_configs.target_admin(config), "admin")
    librdkafka_config(client_configs.offset_syncs_producer(config), "producer")


def _check_checkpoint(config: Mapping[str, str]) -> None:
    # Checks single values only: if the values of checkpoints conflict, MirrorMaker 2 omits this
    # connector and runs the others.
    CHECKPOINT_CONFIG_DEF.parse(config)


def _check_heartbeat(config: Mapping[str, str]) -> None:
    HeartbeatConfig.from_properties(config)
    librdkafka_config(client_configs.heartbeats_target_admin(config), "admin")


_CHECKS: dict[str, Callable[[Mapping[str, str]], None]] = {
    "MirrorSourceConnector": _check_source,
    HEARTBEAT_CONNECTOR: _check_heartbeat,
    "MirrorCheckpointConnector": _check_checkpoint,
}
