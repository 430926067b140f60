"""The consumer groups of a cluster and their committed offsets, many groups per call.

Uses one confluent-kafka admin client, and raw connections for reading and setting offsets. Covers
groups of the classic and the new consumer protocol (KIP-848), with and without members. Safe to use
from any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafka.protocol.admin import DescribeGroupsRequest

from connect.clients.config.properties import wire_settings
from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code, from_librdkafka
from connect.clients.groups.ask_coordinators import ask_coordinators, slices
from connect.clients.groups.commit_offsets import commit_offsets
from connect.clients.groups.fetch_offsets import Committed, fetch_committed
from connect.clients.librdkafka.admin_connection import AdminConnection
from connect.clients.wire.connection import WireConnection
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.protocol.error_codes import ErrorCode
from connect.topic_partition import TopicPartition

__all__ = ["Committed", "ConsumerGroups", "GroupListing"]

_DEAD = "Dead"
# Version 6 of DescribeGroups adds only an error message.
_NEWEST = 5

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
        for group, state in _fetch_states(self._wire, unknown, deadline).items():
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


def _fetch_states(
    settings: WireSettings, groups: Collection[str], deadline: Deadline
) -> dict[str, str | ConnectError]:
    """Return each group's state as its coordinator names it (`Empty`, `Stable`, ...), for brokers
    before Kafka 2.6, which do not list states.

    A group that does not exist is `Dead`. A group that cannot be queried has its error.
    """

    def ask(
        connection: WireConnection, own: Sequence[str]
    ) -> Iterator[tuple[str, str | ConnectError]]:
        version = connection.version_of(
            DescribeGroupsRequest.API_KEY, _NEWEST, name="DescribeGroups"
        )
        for slice_ in slices(own):
            request = DescribeGroupsRequest(version=version, groups=list(slice_))
            for each in connection.call(request, deadline).groups:
                yield each.group_id, _state(each.group_id, each.error_code, each.group_state)

    return ask_coordinators(settings, groups, ask, deadline)


def _state(group: str, code: int, state: str) -> str | ConnectError:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return _DEAD
    if code:
        what = f"Describing group {group}"
        return error_from_code(code, what, needs=f"Describe on group {group}")
    return state
