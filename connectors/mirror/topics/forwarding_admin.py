"""`forwarding.admin.class`: the class through which a mirror creates and changes topics (KIP-787).

A company whose topics belong to a service of its own names a class that asks this service. All
admin clients with which a mirror changes a cluster are of this class; records, groups and the
worker's own topics have clients of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from connect.clients.librdkafka.acls import Acl
from connect.clients.librdkafka.admin import DEFAULT_TIMEOUT_S, Admin
from connect.clients.librdkafka.descriptions import ConfigChange, TopicCreation
from connect.errors import ConnectError
from connectors.mirror.config.base import FORWARDING_ADMIN_KEY, JAVA_FORWARDING_ADMIN
from connectors.mirror.load_class import load_class

__all__ = [
    "ENTRY_POINTS",
    "Acl",
    "ConfigChange",
    "ForwardingAdmin",
    "forwarding_admin",
    "forwarding_admin_class",
]

ENTRY_POINTS = "kafka_connect_mirror.forwarding_admins"
"""The group of entry points in which packages name their classes."""

P = ParamSpec("P")
T = TypeVar("T")


class ForwardingAdmin(Admin):
    """Creates and changes topics with Kafka's admin API. A custom class overrides `create_topic`
    (or `create_topics`), `create_partitions`, `alter_topic_configs` and `create_acls`, completely,
    or to call `super()` with other arguments.

    It is created with the properties of an admin client of one cluster, which include all keys
    below `admin.`, and `source.admin.` or `target.admin.`. Several threads use it at once. An
    exception from these methods is a failure of that topic, which the mirror logs and tries again.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in ("create_topic", "create_partitions", "alter_topic_configs", "create_acls"):
            if name in vars(cls):
                setattr(cls, name, _typed_errors(vars(cls)[name]))
        if "create_topic" in vars(cls) and "create_topics" not in vars(cls):
            setattr(cls, "create_topics", _one_by_one)  # noqa: B010 - mypy: methods are not set


def _one_by_one(
    admin: Admin, topics: Sequence[TopicCreation], timeout: float = DEFAULT_TIMEOUT_S
) -> dict[str, bool | ConnectError]:
    """Implement `create_topics` for a class that overrides `create_topic`."""
    created: dict[str, bool | ConnectError] = {}
    for topic in topics:
        try:
            created[topic.name] = admin.create_topic(
                topic.name, topic.partitions, topic.replication_factor, topic.configs, timeout
            )
        except ConnectError as error:
            created[topic.name] = error
    return created


def _typed_errors(method: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except ConnectError:
            raise
        except Exception as error:
            raise ConnectError(f"{method.__qualname__} failed: {error!r}") from error

    return call


def forwarding_admin_class(props: Mapping[str, str]) -> type[ForwardingAdmin]:
    """Return the class that a connector's properties name. Raises `ConfigError`."""
    return load_class(
        FORWARDING_ADMIN_KEY,
        props.get(FORWARDING_ADMIN_KEY, JAVA_FORWARDING_ADMIN),
        {JAVA_FORWARDING_ADMIN: ForwardingAdmin},
        ForwardingAdmin,
        ENTRY_POINTS,
    )


def forwarding_admin(props: Mapping[str, str], client: Mapping[str, str]) -> ForwardingAdmin:
    """Return an admin client of the class that a connector's properties name. `client`: its own
    properties. Its owner closes it. Raises `ConnectError`."""
    return forwarding_admin_class(props)(client)
