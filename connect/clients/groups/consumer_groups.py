"""The consumer groups of a cluster and their committed offsets, many groups per call.

Uses one confluent-kafka admin client, and raw connections for reading and setting offsets. Covers
groups of the classic and the new consumer protocol (KIP-848), with and without members. Safe to use
from any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from connect.clients.config.properties import wire_settings
from connect.clients.errors import from_librdkafka
from connect.clients.groups.commit_offsets import commit_offsets
from connect.clients.groups.fetch_offsets import Committed, fetch_committed
from connect.clients.groups.group_states import fetch_states
from connect.clients.librdkafka.admin_connection import AdminConnection
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.topic_partition import TopicPartition

__all__ = ["Committed", "ConsumerGroups", "GroupListing"]

EMPTY_STATE, DEAD_STATE, UNKNOWN_STATE = "EMPTY", "DEAD", "UNKNOWN"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as listed by the cluster. `state` is as in Java's GroupState, for example `EMPTY`.

    `state` is `UNKNOWN` for brokers before Kafka 2.6, unless `list_groups` was asked to query it.
    """

    group: str
    state: str

    @property
    def empty(self) -> bool:
        """Whether the group has no members, so that its offsets may be set."""
        return self.state == EMPTY_STATE

    @property
    def dead(self) -> bool:
        """Whether the group is being removed. Treat it like a group that does not exist."""
        return self.state == DEAD_STATE


class ConsumerGroups(AdminConnection):
    """A client that lists groups and reads and sets their offsets."""

    def __init__(self, props: Mapping[str, str]) -> None:
        super().__init__(props)
        self._wire = wire_settings(props)

    def list_groups(
        self, deadline: Deadline, states_of: Collection[str] = ()
    ) -> dict[str, GroupListing]:
        """Return all groups by id.

        `states_of` names the groups whose state is needed. If brokers do not list states, the
        coordinators of these groups are queried. Raises also if only some of the brokers answer, so
        that no existing group is taken for a missing one.
        """
        what = "Listing consumer groups"
        timeout, needs = _timeout(deadline), "Describe on the cluster"
        future = self._open().list_consumer_groups(request_timeout=timeout)
        result = self._answer(what, future, timeout, needs)
        if result.errors:
            raise from_librdkafka(result.errors[0], what, needs)
        listed = {
            listing.group_id: GroupListing(listing.group_id, listing.state.name)
            for listing in result.valid
        }
        unknown = [
            group for group in states_of if group in listed and listed[group].state == UNKNOWN_STATE
        ]
        for group, state in fetch_states(self._wire, unknown, deadline).items():
            if isinstance(state, ConnectError):
                raise state
            listed[group] = GroupListing(group, state.upper())
        return listed

    def committed(
        self, groups: Iterable[str], deadline: Deadline
    ) -> dict[str, dict[TopicPartition, Committed] | ConnectError]:
        """Return each group's committed offsets, by topic and partition.

        A group that does not exist has none. A group that cannot be queried has its error.
        """
        self._open()
        return fetch_committed(self._wire, list(groups), deadline)

    def commit(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, Committed]],
        deadline: Deadline,
    ) -> dict[str, ConnectError]:
        """Set these offsets of groups without members; other offsets stay.

        Returns the groups that failed, and why: `BrokerError` (UNKNOWN_MEMBER_ID) for a group with
        members.
        """
        self._open()
        return commit_offsets(self._wire, offsets, deadline)


def _timeout(deadline: Deadline) -> float:
    return max(0.1, deadline.remaining())
