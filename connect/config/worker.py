"""A worker's configuration, typed, and the properties of the clients it makes.

The keys are declared in `connect.config.worker_keys`. A standalone herder needs neither a group nor
storage of configs and statuses, so a worker's config may leave those out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from connect.config.definition import ConfigDef, ParsedConfig
from connect.config.security import CLIENT_CONFIG_NAMES
from connect.config.types import SecretStr
from connect.config.worker_keys import DISTRIBUTED_CONFIG_DEF, STANDALONE_CONFIG_DEF
from connect.errors import ConfigError

__all__ = ["WorkerConfig"]

# Of the worker's own properties, those that its internal clients take as they are. The group's
# (group.id, session.timeout.ms ...) are not theirs.
_OWN_CLIENT_NAMES = CLIENT_CONFIG_NAMES | {
    "client.dns.lookup",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
}

# A task's producer keeps trying: a record that cannot be written yet is not a reason to fail.
# Java's other settings for it (no idempotence, one request in flight) keep order in clients that
# cannot otherwise; ours are idempotent.
_TASK_PRODUCER_DEFAULTS = {"acks": "all", "delivery.timeout.ms": "2147483647"}

_NEEDED_KEYS = tuple(
    key
    for key in DISTRIBUTED_CONFIG_DEF
    if key.name not in ("group.id", "config.storage.topic", "status.storage.topic")
)
_NEEDED_CONFIG_DEF = ConfigDef(_NEEDED_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What a worker needs to know. Times in seconds; `originals` may hold secrets."""

    originals: Mapping[str, str] = field(repr=False)
    key_converter: str
    value_converter: str
    header_converter: str
    offset_storage_topic: str = ""
    """Empty for a standalone worker."""
    offset_storage_partitions: int = -1
    offset_storage_replication_factor: int = -1
    offset_storage_topic_configs: Mapping[str, str] = field(default_factory=dict)
    """Extra configs for creating the offsets topic: `offset.storage.<topic config>`."""
    offset_storage_file: str | None = None
    offset_storage_sql_url: SecretStr | None = None
    override_policy: str = "All"
    """Alias or class of the policy for client properties that connectors override."""
    topic_creation_enable: bool = True
    topic_tracking_enable: bool = True
    topic_tracking_allow_reset: bool = True
    offset_flush_interval_s: float
    offset_flush_timeout_s: float
    task_shutdown_graceful_timeout_s: float

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> WorkerConfig:
        """The values in a worker's properties, whose config providers are resolved already.

        Raises ConfigError for the first wrong or missing one.
        """
        parsed = _NEEDED_CONFIG_DEF.parse(props)
        return cls(
            **_shared(parsed),
            offset_storage_topic=parsed.string("offset.storage.topic"),
            offset_storage_partitions=parsed.integer("offset.storage.partitions"),
            offset_storage_replication_factor=parsed.integer("offset.storage.replication.factor"),
            offset_storage_topic_configs=_topic_configs(props, "offset"),
        )

    @classmethod
    def for_standalone(cls, props: Mapping[str, str]) -> WorkerConfig:
        """The same for a standalone worker, which keeps its offsets in a database.

        Raises ConfigError for the first wrong or missing value.
        """
        parsed = STANDALONE_CONFIG_DEF.parse(props)
        file = parsed.optional_string("offset.storage.file.filename")
        url = parsed.secret("offset.storage.sql.url")
        if file is None and url is None:
            raise ConfigError(
                'Missing required configuration "offset.storage.file.filename" which has no default'
                " value. Set it, or set offset.storage.sql.url.",
                key="offset.storage.file.filename",
            )
        return cls(**_shared(parsed), offset_storage_file=file, offset_storage_sql_url=url)

    def own_client_properties(self, purpose: str) -> dict[str, str]:
        """Java properties of a client for the worker's own topics; `purpose` (such as `offsets`)
        ends its client id, `<group.id>-[<client.id>-]<purpose>`."""
        result = {
            name: value for name, value in self.originals.items() if name in _OWN_CLIENT_NAMES
        }
        parts = (self.originals.get("group.id"), self.originals.get("client.id"), purpose)
        result["client.id"] = "-".join(part for part in parts if part)
        return result

    def task_producer_properties(
        self, connector_config: Mapping[str, str], client_id: str
    ) -> dict[str, str]:
        """Java properties of a task's data producer: the worker's `producer.*`, and over them the
        connector's `producer.override.*`."""
        return {
            "bootstrap.servers": self.originals["bootstrap.servers"],
            "client.id": client_id,
            **_TASK_PRODUCER_DEFAULTS,
            **_without_prefix(self.originals, "producer."),
            **_without_prefix(connector_config, "producer.override."),
        }

    def task_consumer_properties(
        self, connector_config: Mapping[str, str], connector: str, client_id: str
    ) -> dict[str, str]:
        """Java properties of a sink task's consumer: the worker's `consumer.*`, and over them the
        connector's `consumer.override.*`."""
        return {
            "bootstrap.servers": self.originals["bootstrap.servers"],
            "group.id": f"connect-{connector}",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            **_without_prefix(self.originals, "consumer."),
            **_without_prefix(connector_config, "consumer.override."),
        }

    def task_admin_properties(
        self, connector_config: Mapping[str, str], client_id: str
    ) -> dict[str, str]:
        """Java properties of a connector's admin client: the worker's own client properties, its
        `admin.*`, and over them the connector's `admin.override.*`."""
        own = {name: value for name, value in self.originals.items() if name in _OWN_CLIENT_NAMES}
        return {
            **own,
            "client.id": client_id,
            **_without_prefix(self.originals, "admin."),
            **_without_prefix(connector_config, "admin.override."),
        }


class _Shared(TypedDict):
    """The fields that every kind of worker has."""

    originals: Mapping[str, str]
    key_converter: str
    value_converter: str
    header_converter: str
    override_policy: str
    topic_creation_enable: bool
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    offset_flush_interval_s: float
    offset_flush_timeout_s: float
    task_shutdown_graceful_timeout_s: float


def _shared(parsed: ParsedConfig) -> _Shared:
    return {
        "originals": parsed.originals,
        "key_converter": parsed.string("key.converter"),
        "value_converter": parsed.string("value.converter"),
        "header_converter": parsed.string("header.converter"),
        "override_policy": parsed.string("connector.client.config.override.policy"),
        "topic_creation_enable": parsed.boolean("topic.creation.enable"),
        "topic_tracking_enable": parsed.boolean("topic.tracking.enable"),
        "topic_tracking_allow_reset": parsed.boolean("topic.tracking.allow.reset"),
        "offset_flush_interval_s": parsed.integer("offset.flush.interval.ms") / 1000,
        "offset_flush_timeout_s": parsed.integer("offset.flush.timeout.ms") / 1000,
        "task_shutdown_graceful_timeout_s": (
            parsed.integer("task.shutdown.graceful.timeout.ms") / 1000
        ),
    }


def _without_prefix(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        key[len(prefix) :]: value
        for key, value in props.items()
        if key.startswith(prefix) and len(key) > len(prefix)
    }


def _topic_configs(props: Mapping[str, str], kind: str) -> dict[str, str]:
    """Topic configs for a storage topic. Connect sets the clean-up itself, so it is not taken."""
    own = {"topic", "partitions", "replication.factor", "cleanup.policy", "file.filename"}
    return {
        name: value
        for name, value in _without_prefix(props, f"{kind}.storage.").items()
        if name not in own
    }
