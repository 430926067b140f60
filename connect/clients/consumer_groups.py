"""The consumer groups of a cluster, many at a time: which there are, and what they committed.

Over one confluent-kafka admin client; safe to use from any thread. Groups of consumers only, of the
classic and the new protocol (KIP-848), those without members included.
"""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from connect.clients import factory
from connect.clients.errors import error_from_code, from_librdkafka
from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded

__all__ = ["Committed", "ConsumerGroups", "GroupListing", "TopicPartitionKey"]

TopicPartitionKey = tuple[str, int]

EMPTY_STATE, DEAD_STATE = "EMPTY", "DEAD"
_IN_FLIGHT = 128
"""Groups asked about at a time: hides round trips, and keeps what librdkafka queues small."""
# librdkafka keeps to the timeout it is given; this only guards against it not answering at all.
_ANSWER_GRACE_S = 5.0


class Committed(NamedTuple):
    """A committed offset: the one to read next. `offset` None: forgotten by the broker."""

    offset: int | None
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as the cluster lists it. `state`: as Java's GroupState, `EMPTY` for instance."""

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
    """See the module. Made from Java client properties; its owner calls `close`."""

    def __init__(self, props: Mapping[str, str]) -> None:
        self._log = factory.LibrdkafkaLog(props.get("client.id", "groups"))
        self._client: AdminClient | None = factory.admin_client(props, log=self._log)

    def close(self) -> None:
        """Close the connections. Later calls raise `ConnectError`."""
        self._log.closing = True
        self._client = None

    def list_groups(self, deadline: Deadline) -> dict[str, GroupListing]:
        """All groups by their ids. Raises also where only some of the brokers answered: a group
        that is missing from a list must not be taken for one that does not exist."""
        what = "Listing consumer groups"
        future = self._open().list_consumer_groups(request_timeout=_timeout(deadline))
        result = self._answer(what, future, deadline)
        if result.errors:
            raise from_librdkafka(result.errors[0], what)
        return {
            listing.group_id: GroupListing(listing.group_id, listing.state.name)
            for listing in result.valid
        }

    def committed(
        self, groups: Iterable[str], deadline: Deadline
    ) -> dict[str, dict[TopicPartitionKey, Committed] | ConnectError]:
        """What each group committed, by topic and partition; nothing for one that does not exist.
        A group that could not be asked has its error."""
        waiting = deque(groups)
        asked: deque[tuple[str, Any]] = deque()
        found: dict[str, dict[TopicPartitionKey, Committed] | ConnectError] = {}
        while waiting or asked:
            while waiting and len(asked) < _IN_FLIGHT:
                group = waiting.popleft()
                try:
                    asked.append((group, self._ask_committed(group, deadline)))
                except ConnectError as error:
                    found[group] = error
            if asked:
                group, future = asked.popleft()
                found[group] = self._committed_of(group, future, deadline)
        return found

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartitionKey, Committed],
        deadline: Deadline,
    ) -> None:
        """Set these offsets of a group, which must have no members; others stay. Raises
        `BrokerError` (UNKNOWN_MEMBER_ID) where it has some, and for the first refused partition."""
        what = f"Setting offsets of group {group}"
        partitions = [
            TopicPartition(topic, partition, committed.offset, committed.metadata)
            for (topic, partition), committed in offsets.items()
            if committed.offset is not None
        ]
        if not partitions:
            return
        client, timeout = self._open(), _timeout(deadline)
        request = ConsumerGroupTopicPartitions(group, partitions)
        try:
            futures = client.alter_consumer_group_offsets([request], request_timeout=timeout)
        except confluent_kafka.KafkaException as error:
            raise from_librdkafka(error, what) from error
        answer = self._answer(what, futures[group], deadline)
        for changed in answer.topic_partitions or ():
            if changed.error is not None:
                name = f"{changed.topic}-{changed.partition}"
                raise error_from_code(changed.error.code(), f"{what} for {name}")

    def _ask_committed(self, group: str, deadline: Deadline) -> Any:
        try:
            return self._open().list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=_timeout(deadline)
            )[group]
        except (confluent_kafka.KafkaException, ValueError) as error:
            # ValueError: an id that librdkafka does not take, such as an empty one.
            raise ConnectError(f"Reading the offsets of group {group} failed: {error}") from error

    def _committed_of(
        self, group: str, future: Any, deadline: Deadline
    ) -> dict[TopicPartitionKey, Committed] | ConnectError:
        try:
            answer = self._answer(f"Reading the offsets of group {group}", future, deadline)
        except ConnectError as error:
            return error
        return {
            (each.topic, each.partition): Committed(
                each.offset if each.offset >= 0 else None, each.metadata or ""
            )
            for each in answer.topic_partitions or ()
            if each.error is None
        }

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
            raise from_librdkafka(error, what) from error
        except concurrent.futures.TimeoutError as error:
            raise DeadlineExceeded(f"{what} had no answer in time") from error
        finally:
            # Only a poll hands librdkafka's log lines over; without it they pile up.
            if self._client is not None:
                self._client.poll(0)


def _timeout(deadline: Deadline) -> float:
    return max(0.1, deadline.remaining())
