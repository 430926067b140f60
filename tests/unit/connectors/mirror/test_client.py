"""What topics' names tell of the clusters upstream, and which properties a client takes."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.mirror.client import ancestry, client_properties, hops
from connectors.mirror.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy

HEARTBEATS = ["heartbeats", "B.heartbeats", "B.A.heartbeats", "C.B.A.heartbeats"]


@pytest.mark.parametrize("policy", [DefaultReplicationPolicy({}), IdentityReplicationPolicy({})])
def test_hops_are_those_of_kafka(
    policy: DefaultReplicationPolicy | IdentityReplicationPolicy,
) -> None:
    def least(alias: str) -> int:
        found = [hops(policy, topic, alias) for topic in HEARTBEATS]
        return min((count for count in found if count > 0), default=-1)

    assert {alias for topic in HEARTBEATS for alias in ancestry(policy, topic)} == {"A", "B", "C"}
    assert [least(alias) for alias in "ABCZ"] == [2, 1, 1, -1]


def test_a_topic_that_went_round_in_a_circle_ends_where_a_cluster_comes_again() -> None:
    policy = DefaultReplicationPolicy({})
    assert ancestry(policy, "A.B.A.C.heartbeats") == ["A", "B"]
    assert hops(policy, "A.B.A.C.heartbeats", "C") == -1


def test_only_names_of_connecting_and_security_reach_the_clients() -> None:
    props = {
        "bootstrap.servers": "b:1",
        "admin.bootstrap.servers": "a:1",
        "consumer.sasl.mechanism": "PLAIN",
        "consumer.max.poll.records": "7",
        "client.id": "mine",
        "ssl.keystore.location": "/k",
    }
    assert client_properties(props, "admin") == {
        "bootstrap.servers": "a:1",
        "ssl.keystore.location": "/k",
        "client.id": "mirror-client-admin",
    }
    assert client_properties(props, "consumer") == {
        "bootstrap.servers": "b:1",
        "ssl.keystore.location": "/k",
        "sasl.mechanism": "PLAIN",
        "client.id": "mirror-client-consumer",
    }


def test_without_bootstrap_servers_there_is_no_client() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        client_properties({"sasl.mechanism": "PLAIN"}, "admin")
