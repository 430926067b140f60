"""Through which class a mirror creates and changes topics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import TopicCreation
from connect.errors import BrokerError, ConnectError
from connectors.mirror.checkpoints.connector import MirrorCheckpointConnector
from connectors.mirror.heartbeat import MirrorHeartbeatConnector
from connectors.mirror.source.connector import MirrorSourceConnector
from connectors.mirror.topics.forwarding_admin import ForwardingAdmin, forwarding_admin

KEY = "forwarding.admin.class"
JAVA = "org.apache.kafka.clients.admin.ForwardingAdmin"
CLIENT = {"bootstrap.servers": "localhost:1", "topic.service": "https://topics.example"}
FLOW = {
    "name": "m",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "localhost:1",
    "target.cluster.bootstrap.servers": "localhost:2",
}


class TopicService(ForwardingAdmin):
    """Refuses a topic, cannot reach its service for another, and knows its own properties."""

    def __init__(self, props: Mapping[str, str]) -> None:
        super().__init__(props)
        self.service = props["topic.service"]

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> bool:
        if name == "forbidden":
            raise BrokerError("team B owns it", code=29)
        raise OSError("no route to the service")


OWN = f"{__name__}:TopicService"


@pytest.mark.parametrize("props", [{}, {KEY: JAVA}])
def test_by_default_and_by_java_s_name_kafka_is_asked(props: Mapping[str, str]) -> None:
    made = forwarding_admin(props, CLIENT)
    try:
        assert type(made) is ForwardingAdmin
        assert made.create_topic.__func__ is Admin.create_topic  # type: ignore[attr-defined]
    finally:
        made.close()


def test_a_class_of_one_s_own_gets_the_client_s_properties_and_its_errors_have_a_type() -> None:
    made = forwarding_admin({KEY: OWN}, CLIENT)
    try:
        assert isinstance(made, TopicService)
        assert made.service == "https://topics.example"
        with pytest.raises(BrokerError, match="team B owns it"):
            made.create_topic("forbidden", 1, 1)
        with pytest.raises(ConnectError, match=r"TopicService.create_topic failed: OSError"):
            made.create_topic("orders", 1, 1)
        both = [TopicCreation("forbidden", 1, 1, {}), TopicCreation("orders", 1, 1, {})]
        outcomes = made.create_topics(both, 60.0)
        assert "team B owns it" in str(outcomes["forbidden"])
        assert "no route to the service" in str(outcomes["orders"])
    finally:
        made.close()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("org.example.TopicService", "No module named"),
        (f"{__name__}:Nobody", "has no class Nobody"),
        ("pathlib:Path", "not a subclass of ForwardingAdmin"),
    ],
)
@pytest.mark.parametrize(
    "connector", [MirrorSourceConnector, MirrorCheckpointConnector, MirrorHeartbeatConnector]
)
def test_a_wrong_class_is_found_by_the_validation(
    connector: type[MirrorSourceConnector], name: str, reason: str
) -> None:
    (problem,) = connector.validate(FLOW | {KEY: name})
    assert (problem.key, reason in problem.message) == (KEY, True)


def test_users_of_the_rest_api_choose_no_module_that_the_operator_did_not() -> None:
    chosen = {KEY: "company.topics:TopicService"}
    (problem,) = MirrorSourceConnector.not_permitted(chosen, {})
    assert problem.key == KEY
    assert not MirrorSourceConnector.not_permitted(chosen, chosen)
    assert not MirrorSourceConnector.not_permitted({KEY: JAVA}, {})
