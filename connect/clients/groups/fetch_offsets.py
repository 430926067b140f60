"""Read committed offsets of consumer groups from their coordinators, over raw connections.

librdkafka is not used because its admin client crashes the process with a null pointer when a
coordinator answers NOT_COORDINATOR (librdkafka 2.16.1, `rd_kafka_handle_OffsetFetch` without a
consumer). Safe to use from any thread: each call opens and closes its own connections.
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
"""The first version of OffsetFetch that accepts several groups."""
_NEWEST = 9
"""The newest version before those that name topics by id."""


class Committed(NamedTuple):
    """A committed offset: the next one to read. `offset` None means that the broker has none.

    `metadata` is exactly what the client committed; C clients may append a NUL.
    """

    offset: int | None
    metadata: str = ""


Offsets = dict[TopicPartition, Committed]
Found = dict[str, "Offsets | ConnectError"]


def fetch_committed(settings: WireSettings, groups: Collection[str], deadline: Deadline) -> Found:
    """Return the offsets by group. A group that does not exist has none.

    A group that cannot be queried has its error.
    """

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
    """Return a request for all topics of these groups."""
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
