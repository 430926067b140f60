"""Clusters with an authorizer, and users who may do only what a test grants them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.old_clusters import authorized
from tests.support.records.topics import admin

__all__ = [
    "Grant",
    "authorizing_cluster",
    "forget",
    "grant",
    "group",
    "login",
    "on_cluster",
    "revoke",
    "topic",
    "transactional_id",
]

_LISTENER = "SASL"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_PASSWORD = "open-sesame-7"
_TIMEOUT_S = 30.0
_Rule = tuple[ResourceType, str, ResourcePatternType, str, str, AclOperation, AclPermissionType]


@dataclass(frozen=True)
class Grant:
    """Operations that are allowed on one resource. `pattern`: LITERAL or PREFIXED."""

    kind: ResourceType
    name: str
    pattern: ResourcePatternType
    operations: tuple[AclOperation, ...]

    def rules(self, user: str) -> list[_Rule]:
        """The arguments of an `AclBinding` for each operation."""
        resource = (self.kind, self.name, self.pattern, f"User:{user}", "*")
        return [(*resource, operation, AclPermissionType.ALLOW) for operation in self.operations]


def _resource(kind: ResourceType, name: str, operations: str) -> Grant:
    prefixed = name.endswith("*") and name != "*"
    return Grant(
        kind,
        name.rstrip("*") if prefixed else name,
        ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
        tuple(AclOperation[operation] for operation in operations.upper().split()),
    )


def topic(name: str, operations: str) -> Grant:
    """Operations on a topic; `name` with a star at its end is a prefix. `operations` are Kafka's
    names with underscores, separated by blanks."""
    return _resource(ResourceType.TOPIC, name, operations)


def group(name: str, operations: str) -> Grant:
    """Operations on a consumer group, as in `topic`."""
    return _resource(ResourceType.GROUP, name, operations)


def transactional_id(name: str, operations: str) -> Grant:
    """Operations on transactional ids, as in `topic`."""
    return _resource(ResourceType.TRANSACTIONAL_ID, name, operations)


def on_cluster(_name: str, operations: str) -> Grant:
    """Operations on the cluster itself, as in `topic`."""
    return _resource(ResourceType.BROKER, "kafka-cluster", operations)


def authorizing_cluster(
    name: str, users: Iterable[str], kafka: KafkaRuntime, logs: Path
) -> KafkaCluster:
    """A broker where only clients of the listener without security may do everything. `users`
    log in by SASL, and may do nothing until `grant`. The caller starts and closes it."""
    logins = " ".join(f'user_{user}="{_PASSWORD}"' for user in users)
    prefix = f"listener.name.{_LISTENER.lower()}"
    properties = {
        **authorized(kafka.version),
        "log.retention.ms": "-1",
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f"{_PLAIN} required {logins};",
    }
    return KafkaCluster(
        name=name,
        properties=properties,
        listeners={_LISTENER: "SASL_PLAINTEXT"},
        kafka=kafka,
        logs=logs,
    )


def login(cluster: KafkaCluster, user: str, password: str = _PASSWORD) -> dict[str, str]:
    """Java client properties of a user."""
    return {
        "bootstrap.servers": cluster.bootstrap(_LISTENER),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_PLAIN} required username="{user}" password="{password}";',
    }


def grant(cluster: KafkaCluster, user: str, grants: Iterable[Grant]) -> None:
    """Allow a user all of this."""
    bindings = [AclBinding(*rule) for each in grants for rule in each.rules(user)]
    if not bindings:
        return
    client = admin(cluster.bootstrap_servers)
    for made in client.create_acls(bindings).values():
        made.result(_TIMEOUT_S)


def revoke(cluster: KafkaCluster, user: str, grants: Iterable[Grant]) -> None:
    """Take away what `grant` gave."""
    client = admin(cluster.bootstrap_servers)
    filters = [AclBindingFilter(*rule) for each in grants for rule in each.rules(user)]
    for gone in client.delete_acls(filters).values():
        gone.result(_TIMEOUT_S)


def forget(cluster: KafkaCluster, user: str) -> None:
    """Take away all that a user was ever given."""
    every = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type] # any name
        ResourcePatternType.ANY,
        f"User:{user}",
        None,  # type: ignore[arg-type] # any host
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    (gone,) = admin(cluster.bootstrap_servers).delete_acls([every]).values()
    gone.result(_TIMEOUT_S)
