"""Sets the target state of a flow's connectors in the config topic of its group."""

from __future__ import annotations

from contextlib import closing

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.storage.instance_id import TargetState
from connect.storage.kafka_config_store import KafkaConfigStore
from connectors.mirror.inspect.cluster_queries import asking, refuse_hidden
from connectors.mirror.inspect.flow import DedicatedFlow

__all__ = ["set_target_state"]

_TIMEOUT_S = 30.0
_CLOSE_S = 2.0


def set_target_state(flow: DedicatedFlow, state: TargetState) -> dict[str, TargetState]:
    """Set the state of all connectors of the flow. Returns the previous state of each, by name.

    The workers follow within seconds. Raises `ConnectError`, also if the flow never ran: then there
    are no connectors yet.
    """
    client = flow.client("target-state")
    _need_topic(flow, client)
    store = KafkaConfigStore(TopicSpec(flow.config_topic, 1), client)
    try:
        store.start(Deadline(_TIMEOUT_S))
        found = store.snapshot()
        before = {
            name: found.target_state(name) or TargetState.STARTED for name in found.connectors()
        }
        if not before:
            raise ConnectError(_never_ran(flow))
        for name, old in before.items():
            if old is not state:
                store.put_target_state(name, state)
    finally:
        store.stop(Deadline(_CLOSE_S))
    return before


def _need_topic(flow: DedicatedFlow, client: dict[str, str]) -> None:
    with closing(Admin(client)) as admin, asking("target", client):
        if flow.config_topic not in admin.list_topics(_TIMEOUT_S):
            refuse_hidden(admin, [flow.config_topic])
            raise ConnectError(_never_ran(flow))


def _never_ran(flow: DedicatedFlow) -> str:
    return (
        f"{flow.name} has no connectors in topic {flow.config_topic}: it never ran. Start it "
        "first; to keep it from running, set its enabled=false in the file"
    )
