"""A worker's typed configuration, and the properties of its clients.

`connect.config.worker_keys` declares the keys. A standalone worker needs no group and no topics for
configs and statuses, so its config may omit them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from connect.config.definition import ConfigDef, ParsedConfig
from connect.config.otlp_keys import OTLP_ENDPOINT
from connect.config.properties import without_prefix
from connect.config.security import CLIENT_CONFIG_NAMES
from connect.config.types import SecretStr
from connect.config.worker_keys import DISTRIBUTED_CONFIG_DEF, STANDALONE_CONFIG_DEF
from connect.errors import ConfigError

__all__ = ["WorkerConfig"]

# Worker properties that its internal clients use unchanged. The group's properties (group.id,
# session.timeout.ms ...) are not among them.
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

# A task's producer retries without end, so that an unavailable broker does not fail the task.
# Java's other settings (no idempotence, one request in flight) only keep the order in clients
# without idempotence; ours have it.
_TASK_PRODUCER_DEFAULTS = {"acks": "all", "delivery.timeout.ms": "2147483647"}

_NEEDED_KEYS = tuple(
    key
    for key in DISTRIBUTED_CONFIG_DEF
    if key.name not in ("group.id", "config.storage.topic", "status.storage.topic")
)
_NEEDED_CONFIG_DEF = ConfigDef(_NEEDED_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """A worker's settings. Times in seconds; `originals` may hold secrets."""

    originals: Mapping[str, str] = field(repr=False)
    key_converter: str
    value_converter: str
    header_converter: str
    offset_storage_topic: str = ""
    """Empty for a standalone worker."""
    offset_storage_partitions: int = -1
    offset_storage_replication_factor: int = -1
    offset_storage_topic_configs: Mapping[str, str] = field(default_factory=dict)
    """Extra topic configs of the offsets topic: `offset.storage.<topic config>`."""
    offset_storage_file: str | None = None
    offset_storage_sql_url: SecretStr | None = None
    override_policy: str = "All"
    """Alias or class of the policy for client properties that connectors may override."""
    topic_creation_enable: bool = True
    topic_tracking_enable: bool = True
    topic_tracking_allow_reset: bool = True
    otlp_endpoint: str | None = None
    offset_flush_interval_s: float
    offset_flush_timeout_s: float
    task_shutdown_graceful_timeout_s: float

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> WorkerConfig:
        """Parse a worker's properties, in which config providers are resolved already.

        Raises the first ConfigError.
        """
        parsed = _NEEDED_CONFIG_DEF.parse(props)
        return replace(
            cls._common(parsed),
            offset_storage_topic=parsed.string("offset.storage.topic"),
            offset_storage_partitions=parsed.integer("offset.storage.partitions"),
            offset_storage_replication_factor=parsed.integer("offset.storage.replication.factor"),
            offset_storage_topic_configs=_topic_configs(props, "offset"),
        )

    @classmethod
    def for_standalone(cls, props: Mapping[str, str]) -> WorkerConfig:
        """Parse a standalone worker's properties; such a worker stores its offsets in a database.

        Raises the first ConfigError.
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
        common = cls._common(parsed)
        return replace(common, offset_storage_file=file, offset_storage_sql_url=url)

    @classmethod
    def _common(cls, parsed: ParsedConfig) -> WorkerConfig:
        """Return a config with the settings that all kinds of workers have."""
        return cls(
            originals=parsed.originals,
            key_converter=parsed.string("key.converter"),
            value_converter=parsed.string("value.converter"),
            header_converter=parsed.string("header.converter"),
            override_policy=parsed.string("connector.client.config.override.policy"),
            topic_creation_enable=parsed.boolean("topic.creation.enable"),
            topic_tracking_enable=parsed.boolean("topic.tracking.enable"),
            topic_tracking_allow_reset=parsed.boolean("topic.tracking.allow.reset"),
            otlp_endpoint=parsed.optional_string(OTLP_ENDPOINT.name),
            offset_flush_interval_s=parsed.integer("offset.flush.interval.ms") / 1000,
            offset_flush_timeout_s=parsed.integer("offset.flush.timeout.ms") / 1000,
            task_shutdown_graceful_timeout_s=(
                parsed.integer("task.shutdown.graceful.timeout.ms") / 1000
            ),
        )

    def own_client_properties(self, purpose: str) -> dict[str, str]:
        """Return Java properties of a client for the worker's internal topics.

        Its client id is `<group.id>-[<client.id>-]<purpose>`, where `purpose` is for example
        `offsets`.
        """
        result = {
            name: value for name, value in self.originals.items() if name in _OWN_CLIENT_NAMES
        }
        parts = (self.originals.get("group.id"), self.originals.get("client.id"), purpose)
        result["client.id"] = "-".join(part for part in parts if part)
        return result

    def task_producer_properties(self, client_id: str) -> dict[str, str]:
        """Return Java properties of a task's data producer: the worker's `producer.*`."""
        return {
            "bootstrap.servers": self.originals["bootstrap.servers"],
            "client.id": client_id,
            **_TASK_PRODUCER_DEFAULTS,
            **without_prefix(self.originals, "producer."),
        }

    def task_consumer_properties(self, connector: str, client_id: str) -> dict[str, str]:
        """Return Java properties of a sink task's consumer: the worker's `consumer.*`."""
        return {
            "bootstrap.servers": self.originals["bootstrap.servers"],
            "group.id": f"connect-{connector}",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            **without_prefix(self.originals, "consumer."),
        }

    def task_admin_properties(self, client_id: str) -> dict[str, str]:
        """Return Java properties of a connector's admin client: the worker's client properties and
        its `admin.*`.
        """
        own = {name: value for name, value in self.originals.items() if name in _OWN_CLIENT_NAMES}
        return {
            **own,
            "client.id": client_id,
            **without_prefix(self.originals, "admin."),
        }


def _topic_configs(props: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the topic configs of an internal topic, without the cleanup policy, which Connect
    sets.
    """
    own = {"topic", "partitions", "replication.factor", "cleanup.policy", "file.filename"}
    return {
        name: value
        for name, value in without_prefix(props, f"{kind}.storage.").items()
        if name not in own
    }
