"""Operations on resources, as authorizers know them (KIP-11). Pure."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple

__all__ = ["IDEMPOTENT_PRODUCER", "Operation", "Permission", "Resource"]

IDEMPOTENT_PRODUCER = "Write on a topic; on brokers before 2.8 IdempotentWrite on the cluster"
"""Brokers ask for either before they know what will be written (KIP-679)."""


class Resource(Enum):
    """A resource type. The values are those of messages."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional id"


class Operation(IntEnum):
    """An operation. The values are Kafka's codes (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12

    def __str__(self) -> str:
        """Return Kafka's name, for example `DescribeConfigs`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Permission(NamedTuple):
    """An operation on one resource. `name`: empty for the cluster."""

    resource: Resource
    name: str
    operation: Operation

    def __str__(self) -> str:
        return f"{self.operation} on {' '.join(filter(None, (self.resource.value, self.name)))}"
