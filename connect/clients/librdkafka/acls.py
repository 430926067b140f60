"""Topic ACLs as values with Java's names. Pure."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

__all__ = ["TOPIC_ACLS", "Acl"]


class Acl(NamedTuple):
    """One ACL entry for topics.

    The fields have Java's enum names: `pattern` LITERAL or PREFIXED, `operation` READ, WRITE, ALL,
    ..., `permission` ALLOW or DENY.
    """

    topic: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    @classmethod
    def of_binding(cls, binding: AclBinding) -> Acl:
        return cls(
            binding.name,
            ResourcePatternType(binding.resource_pattern_type).name,
            binding.principal,
            binding.host,
            AclOperation(binding.operation).name,
            AclPermissionType(binding.permission_type).name,
        )

    def binding(self) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC,
            self.topic,
            ResourcePatternType[self.pattern],
            self.principal,
            self.host,
            AclOperation[self.operation],
            AclPermissionType[self.permission],
        )

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.operation} to {self.principal} from {self.host} on "
            f"{self.pattern} topic {self.topic}"
        )


# None matches any value; confluent-kafka's type annotations lack it.
TOPIC_ACLS = AclBindingFilter(
    ResourceType.TOPIC,
    None,  # type: ignore[arg-type]
    ResourcePatternType.ANY,
    None,  # type: ignore[arg-type]
    None,  # type: ignore[arg-type]
    AclOperation.ANY,
    AclPermissionType.ANY,
)
"""Return a filter for all topic ACLs."""
