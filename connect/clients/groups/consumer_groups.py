"""The consumer groups of a cluster and their committed offsets, many groups per call.

Over one confluent-kafka admin client, and connections of our own for reading and setting what
groups committed; safe to use from any thread. Groups of consumers only, of the classic and the new
protocol (KIP-848), those without members included.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient

from connect.clients.config.properties import wire_settings
from connect.clients.errors import from_librdkafka
from connect.clients.groups.commit_offsets import commit_offsets
from connect.clients.groups.fetch_offsets import Committed, fetch_committed
from connect.clients.groups.group_states import fetch_states
from connect.clients.librdkafka import factory
from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from connect.topic_partition import TopicPartition

__all__ = ["Committed", "ConsumerGroups", "GroupListing"]

EMPTY_STATE, DEAD_STATE, UNKNOWN_STATE = "EMPTY", "DEAD", "UNKNOWN"
# librdkafka keeps to the timeout it is given; this only guards against it not answering at all.
_ANSWER_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as the cluster lists it. `state`: as Java's GroupState, `EMPTY` for instance;
    `UNKNOWN` where brokers before Kafka 2.6 were not asked for it by `list_groups`."""

    group: str
    state: str

    @property
    def empty(self) -> bool:
        """Whether it has no members: then its offsets may be set."""
        return self.state == EMPTY_STATE

    @property
    def dead(self) -> bool:
        """Whether it is being removed: as good as one that does not exist."""
        return self.state == DEAD_STATE


class ConsumerGroups:
    """Lists groups, reads and sets their offsets. Made from Java client properties; its owner calls
    `close`."""

    def __init__(self, props: Mapping[str, str]) -> None:
        self._log = factory.LibrdkafkaLog(props.get("client.id", "groups"))
        self._wire = wire_settings(props)
        self._client: AdminClient | None = factory.admin_client(props, log=self._log)

    def close(self) -> None:
        """Close the connections. Later calls raise `ConnectError`."""
        self._log.closing = True
        self._client = None

    def list_groups(
        self, deadline: Deadline, states_of: Collection[str] = ()
    ) -> dict[str, GroupListing]:
        """All groups by their ids.

        `states_of`: groups whose state has to be known, also where brokers do not list states;
        then their coordinators are asked. Raises also where only some of the brokers answered: a
        group that is missing from a list must not be taken for one that does not exist.
        """
        what = "Listing consumer groups"
        future = self._open().list_consumer_groups(request_timeout=_timeout(deadline))
        result = self._answer(what, future, deadline)
        if result.errors:
            raise from_librdkafka(result.errors[0], what, "Describe on the cluster")
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
        """What each group committed, by topic and partition; nothing for one that does not exist.
        A group that could not be asked has its error."""
        self._open()
        return fetch_committed(self._wire, list(groups), deadline)

    def commit(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, Committed]],
        deadline: Deadline,
    ) -> dict[str, ConnectError]:
        """Set these offsets of groups, which must have no members; others stay. Returns the groups
        that failed, and why: `BrokerError` (UNKNOWN_MEMBER_ID) for one that has members."""
        self._open()
        return commit_offsets(self._wire, offsets, deadline)

    def _open(self) -> AdminClient:
        client = self._client
        if client is None:
            raise ConnectError("The admin client is closed")
        return client

    def _answer(self, what: str, future: Any, deadline: Deadline) -> Any:
        timeout = _timeout(deadline)
        try:
            return future.result(timeout + _ANSWER_GRACE_S)
        except confluent_kafka.KafkaException as error:
            raise from_librdkafka(error, what, "Describe on the cluster") from error
        except concurrent.futures.TimeoutError as error:
            raise DeadlineExceeded(f"{what} got no response in time") from error
        finally:
            # Only a poll hands librdkafka's log lines over; without it they pile up.
            if self._client is not None:
                self._client.poll(0)


def _timeout(deadline: Deadline) -> float:
    return max(0.1, deadline.remaining())
