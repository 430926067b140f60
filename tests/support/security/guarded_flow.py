"""A flow on clusters with an authorizer, whose mirror may do what a test grants it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.error import URLError

from connect.clients.permissions import Resource
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import plan_flows
from connectors.mirrormaker.permissions import flow_names
from connectors.mirrormaker.required_permissions import (
    Feature,
    RequiredPermission,
    required_permissions,
)
from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.records.groups import commit, committed
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import end_offsets, has_topic, unique
from tests.support.security.permissions import (
    Grant,
    grant,
    group,
    login,
    on_cluster,
    topic,
    transactional_id,
)
from tests.support.served import health_of
from tests.support.waiting import wait_until

__all__ = [
    "COUNT",
    "JAVA_HAS",
    "ONCE",
    "OURS",
    "SOON_S",
    "Guarded",
    "granted",
    "unhealthy",
    "wait_well",
]

JAVA_HAS = frozenset(
    {
        Feature.WORKER,
        Feature.COPYING,
        Feature.NEW_PARTITIONS,
        Feature.GROUP_OFFSETS,
        Feature.GROUP_SYNC,
        Feature.HEARTBEATS,
        Feature.CONFIG_SYNC,
    }
)
OURS = frozenset({Feature.OFFSET_MAP, Feature.PROVENANCE})
ONCE = {"B.exactly.once.source.support": "enabled"}
COUNT = 200
SOON_S = 60.0


class Guarded:
    """A flow whose mirror logs in as `user`, and may do what was granted."""

    def __init__(self, clusters: tuple[KafkaCluster, KafkaCluster], user: str) -> None:
        self.flow = MirroredFlow(*clusters)
        self.user = user
        self.group = unique("readers")
        self.topic = self.flow.topic("t", partitions=2)
        produce(self.flow.source_servers, self.topic, numbered(COUNT))
        commit(self.flow.source_servers, self.group, {(self.topic, 0): COUNT // 2})

    def needed(
        self, features: Collection[Feature], extra: Mapping[str, str] | None = None
    ) -> list[RequiredPermission]:
        config = MirrorMakerConfig.from_properties(self.properties("", extra))
        (plan,) = plan_flows(config)
        return required_permissions(flow_names(config, plan), features)

    def cluster(self, permission: RequiredPermission) -> KafkaCluster:
        return self.flow.source if permission.cluster == self.flow.a else self.flow.target

    def grant(
        self,
        features: Collection[Feature],
        leave_out: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Everything that these features need, but for what is about `leave_out`."""
        every = self.needed(features, extra)
        needed = [each for each in every if each.pattern.name != leave_out]
        assert (len(needed) < len(every)) == (leave_out is not None), (
            f"nothing is about {leave_out}"
        )
        for cluster in (self.flow.source, self.flow.target):
            mine = [granted(each) for each in needed if self.cluster(each) is cluster]
            grant(cluster, self.user, mine)

    def properties(self, listener: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        logins = {
            f"{alias}.{key}": value
            for alias, cluster in (("A", self.flow.source), ("B", self.flow.target))
            for key, value in login(cluster, self.user).items()
        }
        return self.flow.properties(
            {
                **logins,
                "metrics.listener": listener,
                "emit.heartbeats.enabled": "true",
                "A->B.emit.heartbeats.interval.seconds": "1",
                "B->A.emit.heartbeats.enabled": "false",
                "groups": self.group,
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "1",
                **(extra or {}),
            }
        )

    def wait_copied(self) -> None:
        self.flow.wait_records(self.topic, [COUNT], SOON_S)
        assert_equal_logs(self.flow, self.topic)

    def wait_group(self) -> None:
        place = (self.flow.remote(self.topic), 0)

        def synced() -> int | None:
            return committed(self.flow.target_servers, self.group).get(place)

        wait_until(synced, SOON_S, f"{self.group} on the target")

    def wait_heartbeats(self) -> None:
        def beats() -> bool:
            return sum(end_offsets(self.flow.target_servers, "heartbeats").values()) > 0

        wait_until(beats, SOON_S, "heartbeats")

    def wait_checkpoints(self) -> None:
        name = f"{self.flow.a}.checkpoints.internal"

        def written() -> bool:
            servers = self.flow.target_servers
            return has_topic(servers, name) and sum(end_offsets(servers, name).values()) > 0

        wait_until(written, SOON_S, f"checkpoints of {self.group}")


def granted(permission: RequiredPermission) -> Grant:
    """What a test's user gets by a permission of the table."""
    make = {
        Resource.TOPIC: topic,
        Resource.GROUP: group,
        Resource.CLUSTER: on_cluster,
        Resource.TRANSACTIONAL_ID: transactional_id,
    }[permission.resource]
    return make(str(permission.pattern), permission.operation.name)


def unhealthy(listener: str) -> str:
    """The document of `/health` while it is not well; empty when it is."""
    try:
        found = health_of(listener)
    except URLError as error:
        return f"no answer: {error}"
    return "" if found["status"] == "healthy" and found["connectors"] else str(found)


def wait_well(listener: str) -> None:
    wait_until(lambda: not unhealthy(listener), SOON_S, "the flow is healthy")
