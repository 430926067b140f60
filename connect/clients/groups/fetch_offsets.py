"""Reads committed offsets of consumer groups from their coordinators, over connections of our own.

Not through librdkafka: its admin client reads a null pointer, and takes the process along, when a
coordinator answers that it is none any more (NOT_COORDINATOR; librdkafka 2.16.1,
`rd_kafka_handle_OffsetFetch` without a consumer). Safe to use from any thread: each call opens what
it needs and closes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetFetchRequest

from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.groups.ask_coordinators import ask_coordinators, slices
from connect.clients.wire.connection import WireConnection
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.protocol.error_codes import ErrorCode
from connect.topic_partition import TopicPartition

__all__ = ["Committed", "fetch_committed"]


_MANY_GROUPS = 8
"""The first version that asks for several groups at once."""
_NEWEST = 9
"""Later ones name topics by id."""


class Committed(NamedTuple):
    """A committed offset: the one to read next. `offset` None: forgotten by the broker.

    `metadata`: to the byte what the client committed; of C's clients it may end in a NUL.
    """

    offset: int | None
    metadata: str = ""


Offsets = dict[TopicPartition, Committed]
Found = dict[str, "Offsets | ConnectError"]


def fetch_committed(settings: WireSettings, groups: Collection[str], deadline: Deadline) -> Found:
    """By group; nothing for a group that does not exist. One that could not be asked has its
    error."""

    def ask(
        connection: WireConnection, own: Sequence[str]
    ) -> Iterator[tuple[str, Offsets | ConnectError]]:
        version = connection.version_of(
            OffsetFetchRequest.API_KEY, _NEWEST, lowest=2, name="OffsetFetch"
        )
        if version < _MANY_GROUPS:
            for group in own:
                yield group, _offsets(group, connection.call(_request([group], version), deadline))
            return
        for slice_ in slices(own):
            for one in connection.call(_request(slice_, version), deadline).groups:
                yield one.group_id, _offsets(one.group_id, one)

    return ask_coordinators(settings, groups, ask, deadline)


def _request(groups: Sequence[str], version: int) -> Any:
    """For all topics of these groups."""
    if version < _MANY_GROUPS:
        return OffsetFetchRequest(version=version, group_id=groups[0], topics=None)
    one = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        version=version, groups=[one(group_id=group, topics=None) for group in groups]
    )


def _offsets(group: str, answer: Any) -> Offsets | ConnectError:
    if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if answer.error_code:
        what = f"Reading the offsets of group {group}"
        return error_from_code(answer.error_code, what, needs=f"Describe on group {group}")
    return {
        (topic.name, each.partition_index): Committed(
            each.committed_offset if each.committed_offset >= 0 else None, each.metadata or ""
        )
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }
