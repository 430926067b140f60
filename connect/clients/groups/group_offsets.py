"""Read, set and delete the committed offsets of a consumer group from outside.

Only offsets of a group without members can be changed. Safe to use from any thread: each call opens
and closes its own connections.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from itertools import groupby
from typing import Any

import confluent_kafka
from kafka.protocol.consumer import OffsetDeleteRequest

from connect.clients.config.properties import wire_settings
from connect.clients.errors import broker_code, error_from_code, from_librdkafka
from connect.clients.groups.commit_offsets import commit_at, worth_trying
from connect.clients.groups.fetch_offsets import Committed, fetch_committed
from connect.clients.librdkafka import factory
from connect.clients.wire.find_coordinator import Coordinated, open_coordinator
from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from connect.loop import Backoff
from connect.protocol.error_codes import ErrorCode

__all__ = ["GroupOffsets"]

_log = logging.getLogger(__name__)

Partition = tuple[str, int]

_RETRY_S, _RETRY_CAP_S = 0.2, 2.0
# librdkafka has a timeout of its own; this one applies only if it never answers.
_ANSWER_GRACE_S = 5.0


class GroupOffsets:
    """The offsets of one group. `properties` are Java admin client properties."""

    def __init__(self, properties: Mapping[str, str], group: str) -> None:
        self._properties = dict(properties)
        self._group = group

    def read(self, deadline: Deadline) -> dict[Partition, int]:
        """Return all committed offsets by topic and partition; none if the group does not exist."""
        settings = wire_settings(self._properties)
        answer = fetch_committed(settings, [self._group], deadline)[self._group]
        if isinstance(answer, ConnectError):
            raise answer
        return {
            key: found.offset for key, found in sorted(answer.items()) if found.offset is not None
        }

    def set(self, offsets: Mapping[Partition, int], deadline: Deadline) -> None:
        """Commit these offsets; others stay."""
        if not offsets:
            return
        settings = wire_settings(self._properties)
        commits = {partition: Committed(offset) for partition, offset in offsets.items()}

        def attempt() -> None:
            with closing(
                open_coordinator(settings, Coordinated.GROUP, self._group, deadline)
            ) as connection:
                commit_at(connection, self._group, commits, deadline)

        _with_patience(attempt, deadline)

    def delete(self, partitions: Collection[Partition], deadline: Deadline) -> None:
        """Delete the offsets of these partitions. Does nothing if the group does not exist."""
        if not partitions:
            return
        _with_patience(lambda: self._delete(partitions, deadline), deadline)

    def _delete(self, partitions: Collection[Partition], deadline: Deadline) -> None:
        what = f"Deleting offsets of group {self._group}"
        settings = wire_settings(self._properties)
        with closing(
            open_coordinator(settings, Coordinated.GROUP, self._group, deadline)
        ) as connection:
            answer = connection.call(self._delete_request(partitions), deadline)
        if answer.error_code not in (0, ErrorCode.GROUP_ID_NOT_FOUND):
            raise error_from_code(answer.error_code, what, needs=f"Delete on group {self._group}")
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    name = f"{topic.name}-{partition.partition_index}"
                    raise error_from_code(
                        partition.error_code,
                        f"{what}: {name}",
                        needs=f"Read on topic {topic.name}",
                    )

    def delete_group(self, deadline: Deadline) -> None:
        """Delete the group. Does nothing if it does not exist."""
        what = f"Deleting group {self._group}"
        timeout = max(0.1, deadline.remaining())
        client = factory.admin_client(self._properties)
        try:
            futures = client.delete_consumer_groups([self._group], request_timeout=timeout)
            futures[self._group].result(timeout + _ANSWER_GRACE_S)
        except confluent_kafka.KafkaException as error:
            found = from_librdkafka(error, what, f"Delete on group {self._group}")
            if broker_code(found) != ErrorCode.GROUP_ID_NOT_FOUND:
                raise found from error
        except concurrent.futures.TimeoutError as error:
            raise DeadlineExceeded(f"{what} got no response within {timeout:g} s") from error

    def _delete_request(self, partitions: Collection[Partition]) -> Any:
        of_topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
        of_partition = of_topic.OffsetDeleteRequestPartition
        return OffsetDeleteRequest(
            group_id=self._group,
            topics=[
                of_topic(
                    name=topic,
                    partitions=[of_partition(partition_index=number) for _, number in numbers],
                )
                for topic, numbers in groupby(sorted(partitions), key=lambda key: key[0])
            ],
        )


def _with_patience(attempt: Callable[[], None], deadline: Deadline) -> None:
    """Retry retriable errors, such as a coordinator that is being elected or is loading its log."""
    backoff = Backoff(_RETRY_S, _RETRY_CAP_S)
    while True:
        try:
            attempt()
        except ConnectError as error:
            wait = backoff.next()
            if not worth_trying(error) or deadline.remaining() <= wait:
                raise
            _log.info("Retrying in %.1f s: %s", wait, error)
            threading.Event().wait(wait)
        else:
            return
