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
from tests.support.waiting import wait_until

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
    filters = [AclBindingFilter(*rule) for rule in rules]
    client = admin(servers)

    def known() -> list[bool]:
        """Which of the rules the broker has: the controller answers before it does."""
        return [bool(client.describe_acls(each).result(_TIMEOUT_S)) for each in filters]

    for made in client.create_acls([AclBinding(*rule) for rule in rules]).values():
        made.result(_TIMEOUT_S)
    wait_until(lambda: all(known()), _TIMEOUT_S, f"rules of {name}")
    try:
        yield
    finally:
        for gone in client.delete_acls(filters).values():
            gone.result(_TIMEOUT_S)
        wait_until(lambda: not any(known()), _TIMEOUT_S, f"no rules of {name}")
