"""Config keys of standalone and distributed Connect workers (Kafka 4.3.1).

Keys with an effect only in Java (plugin scanning, JMX, MAC algorithms) are declared so that they
are known. Their docs say if they have no effect here.
"""

from __future__ import annotations

from connect.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance
from connect.config.otlp_keys import OTLP_ENDPOINT
from connect.config.rest_access_keys import REST_ACCESS_KEYS
from connect.config.security import SECURITY_KEYS
from connect.config.types import ConfigScalar, ConfigType
from connect.config.validators import NonEmptyString, OneOf, OrNull, Range, Validator, ValidList

__all__ = [
    "ALLOWED_AWS_IDENTITIES",
    "ALLOWED_FILES",
    "ALLOWED_SERVERS",
    "ALLOWED_STORES",
    "ALLOWED_URLS",
    "DISTRIBUTED_CONFIG_DEF",
    "STANDALONE_CONFIG_DEF",
    "WORKER_CONFIG_DEF",
]

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"
"""In Kafka these two are Java system properties."""
ALLOWED_SERVERS = "connector.client.allowed.bootstrap.servers"
ALLOWED_STORES = "connector.client.allowed.store.directories"
ALLOWED_AWS_IDENTITIES = "connector.client.allowed.aws.identities"

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _LIST, _CLASS, _BOOLEAN = (
    ConfigType.STRING,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.BOOLEAN,
)
_INT, _LONG, _SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT
_INT_MAX = 2_147_483_647


def _key(
    name: str,
    kind: ConfigType,
    default: ConfigScalar,
    doc: str,
    validator: Validator | None = None,
    importance: Importance = _LOW,
) -> ConfigKey:
    return ConfigKey(name, kind, default, validator, importance, doc)


def _required(
    name: str, kind: ConfigType, doc: str, validator: Validator | None = None
) -> ConfigKey:
    return ConfigKey(name, kind, REQUIRED, validator, _HIGH, doc)


class _PositiveOrBrokerDefault:
    """Validates a count of at least 1, or -1 for the broker's default."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        return value if value == -1 else Range(1).check(key, value)

    def describe(self) -> str:
        return "at least 1, or -1 for the broker's default"


_COUNT = _PositiveOrBrokerDefault()

_WORKER_KEYS = (
    _required(
        "bootstrap.servers", _LIST, "Bootstrap brokers, as host:port.", ValidList(allow_empty=False)
    ),
    _key(
        "client.dns.lookup",
        _STRING,
        "use_all_dns_ips",
        "How the client resolves broker host names.",
        OneOf(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        _MEDIUM,
    ),
    _required("key.converter", _CLASS, "Key converter of connectors that set none."),
    _key("key.converter.plugin.version", _STRING, None, "Accepted; no effect."),
    _required("value.converter", _CLASS, "Value converter of connectors that set none."),
    _key("value.converter.plugin.version", _STRING, None, "Accepted; no effect."),
    _key(
        "header.converter",
        _CLASS,
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "Header converter of connectors that set none.",
    ),
    _key("header.converter.plugin.version", _STRING, None, "Accepted; no effect."),
    _key(
        "task.shutdown.graceful.timeout.ms",
        _LONG,
        5000,
        "Total time for stopping tasks, in ms.",
    ),
    _key(
        "offset.flush.interval.ms",
        _LONG,
        60_000,
        "Interval between commits of source offsets, in ms.",
    ),
    _key("offset.flush.timeout.ms", _LONG, 5000, "Maximum time of an offset commit, in ms."),
    _key(
        "plugin.path",
        _LIST,
        None,
        "Directories with plugins: Python packages, modules and wheels.",
        OrNull(ValidList(allow_empty=False)),
    ),
    _key(
        "plugin.discovery",
        _STRING,
        "hybrid_warn",
        "How Java discovers plugins; no effect.",
        OneOf(("only_scan", "hybrid_warn", "hybrid_fail", "service_load"), ignore_case=True),
    ),
    _key("config.providers", _LIST, (), "Aliases of config providers.", ValidList()),
    _key(
        "connector.client.config.override.policy",
        _STRING,
        "All",
        "Which client properties connectors may override.",
        importance=_MEDIUM,
    ),
    _key(
        "connector.client.config.override.allowlist",
        _LIST,
        (),
        "Client properties that the policy Allowlist allows.",
    ),
    _key(
        ALLOWED_URLS,
        _LIST,
        (),
        "Token endpoints that connectors' configs may name, besides those of the worker's own "
        "properties. Also as -D in KAFKA_OPTS.",
    ),
    _key(
        ALLOWED_FILES,
        _LIST,
        (),
        "Files with keys and assertions for tokens, keytabs and ticket caches that connectors' "
        "configs may name. Also as -D in KAFKA_OPTS.",
    ),
    _key(
        ALLOWED_SERVERS,
        _LIST,
        (),
        "Hosts, or HOST:PORT, that bootstrap.servers in connectors' configs may name. Empty: all, "
        "as in Java. A connector without a login of its own uses that of a JAAS file (KAFKA_OPTS) "
        "wherever its config leads.",
    ),
    _key(
        ALLOWED_STORES,
        _LIST,
        (),
        "Directories below which `ssl.keystore.location` and `ssl.truststore.location` in "
        "connectors' configs may lie, besides the files of the worker's own properties. Symbolic "
        "links are followed.",
    ),
    _key(
        ALLOWED_AWS_IDENTITIES,
        _LIST,
        (),
        "AWS profiles and ARNs of roles (`awsProfileName`, `awsRoleArn`) that `sasl.jaas.config` "
        "in connectors' configs may name, besides those of the worker's own properties.",
    ),
    _key(
        "metric.reporters",
        _LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Java's metric reporters; no effect.",
    ),
    _key("metrics.num.samples", _INT, 2, "Sample windows of a metric.", Range(1)),
    _key("metrics.sample.window.ms", _LONG, 30_000, "Length of a sample window.", Range(0)),
    _key(
        "metrics.recording.level",
        _STRING,
        "INFO",
        "Recording level of Java's metrics; no effect.",
        OneOf(("INFO", "DEBUG")),
    ),
    _key(
        "topic.creation.enable",
        _BOOLEAN,
        True,
        "Whether connectors may define settings for the topics they create.",
    ),
    _key(
        "topic.tracking.enable",
        _BOOLEAN,
        True,
        "Whether the worker tracks the topics that connectors use.",
    ),
    _key(
        "topic.tracking.allow.reset",
        _BOOLEAN,
        True,
        "Whether users may reset a connector's tracked topics.",
    ),
)

_REST_KEYS = (
    _key(
        "listeners",
        _LIST,
        ("http://:8083",),
        "Addresses on which the REST API listens.",
        ValidList(allow_empty=False),
    ),
    _key("rest.advertised.host.name", _STRING, None, "Advertised host of this worker's REST API."),
    _key("rest.advertised.port", _INT, None, "Advertised port of this worker's REST API."),
    _key("rest.advertised.listener", _STRING, None, "Advertised listener: http or https."),
    _key("admin.listeners", _LIST, None, "Listeners of the admin resources, if separate."),
    _key(
        "rest.extension.classes",
        _LIST,
        (),
        "Classes that add to the REST API, in this order: Java's BasicAuthSecurityRestExtension "
        "for basic authentication, and Python classes, as `module:Class` or by plugin name.",
    ),
    _key("access.control.allow.origin", _STRING, "", "CORS: allowed origin."),
    _key("access.control.allow.methods", _STRING, "", "CORS: allowed methods."),
    _key("response.http.headers.config", _STRING, "", "Headers to add to every response."),
    _key(
        "ssl.client.auth",
        _STRING,
        "none",
        "Whether REST clients must authenticate with a certificate.",
        OneOf(("required", "requested", "none")),
    ),
)


def _storage_keys(kind: str, partitions: int | None) -> tuple[ConfigKey, ...]:
    topic = f"{kind}.storage.topic"
    keys = [
        _required(topic, _STRING, f"Topic of the workers' {kind} records.", NonEmptyString()),
        _key(
            f"{kind}.storage.replication.factor",
            _SHORT,
            3,
            "Replication factor of this topic.",
            _COUNT,
        ),
    ]
    if partitions is not None:
        keys.append(_key(f"{kind}.storage.partitions", _INT, partitions, "Its partitions.", _COUNT))
    return tuple(keys)


_GROUP_KEYS = (
    _required("group.id", _STRING, "Group id, the same on all workers of a group."),
    _key(
        "session.timeout.ms",
        _INT,
        10_000,
        "Time after which a worker without heartbeats leaves the group, in ms.",
        None,
        _HIGH,
    ),
    _key(
        "rebalance.timeout.ms",
        _INT,
        60_000,
        "Maximum time for workers to join a rebalance, in ms.",
        None,
        _HIGH,
    ),
    _key(
        "heartbeat.interval.ms",
        _INT,
        3000,
        "Interval between a worker's heartbeats, in ms.",
        None,
        _HIGH,
    ),
    _key(
        "exactly.once.source.support",
        _STRING,
        "disabled",
        "Whether source records and offsets are written in one transaction.",
        OneOf(("disabled", "preparing", "enabled"), ignore_case=True),
        _HIGH,
    ),
    _key(
        "worker.sync.timeout.ms",
        _INT,
        3000,
        "How long a worker reads the config topic to catch up with the group.",
        None,
        _MEDIUM,
    ),
    _key(
        "worker.unsync.backoff.ms",
        _INT,
        300_000,
        "How long a worker that could not catch up stays out of the group.",
        None,
        _MEDIUM,
    ),
    _key(
        "connect.protocol",
        _STRING,
        "sessioned",
        "The group's assignment protocol.",
        OneOf(("eager", "compatible", "sessioned"), ignore_case=True),
    ),
    _key(
        "scheduled.rebalance.max.delay.ms",
        _INT,
        300_000,
        "How long the group waits for a lost worker before it reassigns its work.",
        Range(0, _INT_MAX),
    ),
    _key(
        "inter.worker.key.generation.algorithm",
        _STRING,
        "HmacSHA256",
        "Algorithm for generating session keys.",
    ),
    _key("inter.worker.key.size", _INT, None, "Size of the session key, in bits."),
    _key(
        "inter.worker.key.ttl.ms",
        _INT,
        3_600_000,
        "Lifetime of the session key.",
        Range(0, _INT_MAX),
    ),
    _key(
        "inter.worker.signature.algorithm",
        _STRING,
        "HmacSHA256",
        "Algorithm for signing requests between workers.",
    ),
    _key(
        "inter.worker.verification.algorithms",
        _LIST,
        ("HmacSHA256",),
        "Accepted signature algorithms.",
        ValidList(allow_empty=False),
    ),
)

_CLIENT_KEYS = (
    _key("client.id", _STRING, "", "Part of the ids of the worker's clients."),
    _key("metadata.max.age.ms", _LONG, 300_000, "Maximum age of metadata, in ms.", Range(0)),
    _key("send.buffer.bytes", _INT, 131_072, "SO_SNDBUF; -1: system default.", Range(-1), _MEDIUM),
    _key(
        "receive.buffer.bytes", _INT, 32_768, "SO_RCVBUF; -1: system default.", Range(-1), _MEDIUM
    ),
    _key("reconnect.backoff.ms", _LONG, 50, "Initial wait before reconnecting, in ms.", Range(0)),
    _key("reconnect.backoff.max.ms", _LONG, 1000, "Maximum of this backoff, in ms.", Range(0)),
    _key(
        "socket.connection.setup.timeout.ms", _LONG, 10_000, "Connection timeout, in ms.", Range(0)
    ),
    _key(
        "socket.connection.setup.timeout.max.ms",
        _LONG,
        30_000,
        "Maximum connection timeout, in ms.",
        Range(0),
    ),
    _key("retry.backoff.ms", _LONG, 100, "Initial wait before a retry, in ms.", Range(0)),
    _key("retry.backoff.max.ms", _LONG, 1000, "Maximum of this backoff, in ms.", Range(0)),
    _key("request.timeout.ms", _INT, 40_000, "Timeout of a request, in ms.", Range(0), _MEDIUM),
    _key("connections.max.idle.ms", _LONG, 540_000, "Idle time before a connection is closed."),
    _key(
        "metadata.recovery.strategy",
        _STRING,
        "rebootstrap",
        "What to do when no known broker answers.",
        OneOf(("none", "rebootstrap"), ignore_case=True),
    ),
    _key(
        "metadata.recovery.rebootstrap.trigger.ms",
        _LONG,
        300_000,
        "Time without metadata before a rebootstrap.",
        Range(0),
    ),
)

WORKER_CONFIG_DEF = ConfigDef(
    [*_WORKER_KEYS, OTLP_ENDPOINT, *_REST_KEYS, *REST_ACCESS_KEYS, *SECURITY_KEYS]
)
"""The keys that standalone and distributed workers share."""

DISTRIBUTED_CONFIG_DEF = WORKER_CONFIG_DEF.extended(
    [
        *_GROUP_KEYS,
        *_CLIENT_KEYS,
        *_storage_keys("config", None),
        *_storage_keys("offset", 25),
        *_storage_keys("status", 5),
    ]
)

STANDALONE_CONFIG_DEF = WORKER_CONFIG_DEF.extended(
    [
        _key(
            "offset.storage.file.filename",
            _STRING,
            None,
            "File for source offsets: an SQLite database. Needed, unless"
            " `offset.storage.sql.url` is given.",
            NonEmptyString(),
            _HIGH,
        ),
        _key(
            "offset.storage.sql.url",
            ConfigType.PASSWORD,
            None,
            "SQLAlchemy URL of the database for source offsets in place of a file, such as"
            " `postgresql+psycopg://user:password@host/database`.",
        ),
    ]
)
