"""Taking a permission away from everybody for a while, on a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.support.records.topics import admin

__all__ = ["denied"]

_TIMEOUT_S = 30.0


@contextmanager
def denied(
    servers: str,
    name: str,
    operation: AclOperation,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> Iterator[None]:
    """While the block runs nobody may do `operation` with `name`, but everything else."""
    resource = (kind, name, pattern, "User:*", "*")
    # Where there is any rule about something, what no rule allows is not allowed.
    rules = [
        (*resource, AclOperation.ALL, AclPermissionType.ALLOW),
        (*resource, operation, AclPermissionType.DENY),
    ]
    client = admin(servers)
    for made in client.create_acls([AclBinding(*rule) for rule in rules]).values():
        made.result(_TIMEOUT_S)
    try:
        yield
    finally:
        filters = [AclBindingFilter(*rule) for rule in rules]
        for gone in client.delete_acls(filters).values():
            gone.result(_TIMEOUT_S)
