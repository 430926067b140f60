"""Set committed offsets of consumer groups from outside, with raw OffsetCommit requests.

As in Java's admin client, a request has no member id and no generation, and coordinators accept it
only for groups without members. librdkafka is not used because confluent-kafka counts the
terminating NUL of the C string into an offset's metadata, and stores a NUL that Java does not. Safe
to use from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest

from connect.clients.config.settings import WireSettings
from connect.clients.errors import broker_code, error_from_code
from connect.clients.groups.ask_coordinators import ask_coordinators
from connect.clients.groups.fetch_offsets import Committed
from connect.clients.wire.connection import WireConnection
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.protocol.error_codes import ErrorCode
from connect.topic_partition import TopicPartition

__all__ = ["commit_at", "commit_offsets", "worth_trying"]

GroupCommits = Mapping[TopicPartition, Committed]
"""Offsets by topic and partition. Partitions that are absent stay as they are."""

_OLDEST, _NEWEST = 2, 9
"""kafka-python lacks earlier versions; later ones name topics by id."""
_COORDINATOR_MOVES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Topic = OffsetCommitRequest.OffsetCommitRequestTopic
Partition = Topic.OffsetCommitRequestPartition


def commit_offsets(
    settings: WireSettings, commits: Mapping[str, GroupCommits], deadline: Deadline
) -> dict[str, ConnectError]:
    """Commit offsets of many groups. Return the groups that failed, and why.

    Some partitions of a failed group may have been set. A coordinator that moves or loads its log
    is asked again a few times.
    """
    wanted = [group for group, offsets in commits.items() if _known(offsets)]

    def ask(
        connection: WireConnection, own: Sequence[str]
    ) -> Iterator[tuple[str, ConnectError | None]]:
        for group in own:
            try:
                commit_at(connection, group, commits[group], deadline)
            except ConnectError as error:
                if broker_code(error) is None:
                    raise  # A connection error fails all remaining groups.
                yield group, error
            else:
                yield group, None

    found = ask_coordinators(settings, wanted, ask, deadline, worth_trying)
    return {group: error for group, error in found.items() if error is not None}


def commit_at(
    connection: WireConnection, group: str, offsets: GroupCommits, deadline: Deadline
) -> None:
    """Commit offsets of one group at its coordinator.

    Raises `BrokerError` (UNKNOWN_MEMBER_ID) if the group has members, and the error of the first
    refused partition; the other partitions are set.
    """
    what = f"Setting offsets of group {group}"
    version = connection.version_of(
        OffsetCommitRequest.API_KEY, _NEWEST, lowest=_OLDEST, name="OffsetCommit"
    )
    answer = connection.call(_request(version, group, _known(offsets)), deadline)
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code:
                name = f"{topic.name}-{partition.partition_index}"
                raise error_from_code(
                    partition.error_code,
                    f"{what} for {name}",
                    needs=f"Read on group {group} and topic {topic.name}",
                )


def _known(offsets: GroupCommits) -> list[tuple[str, int, int, str]]:
    return [
        (topic, partition, committed.offset, committed.metadata)
        for (topic, partition), committed in offsets.items()
        if committed.offset is not None
    ]


def _request(version: int, group: str, offsets: list[tuple[str, int, int, str]]) -> Any:
    return OffsetCommitRequest(
        version=version,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            Topic(
                name=topic,
                partitions=[
                    Partition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata=metadata,
                    )
                    for _, partition, offset, metadata in of_topic
                ],
            )
            for topic, of_topic in groupby(sorted(offsets), key=lambda each: each[0])
        ],
    )


def worth_trying(error: ConnectError) -> bool:
    """Return whether a coordinator may accept the request soon. A topic that it does not know may
    never exist.
    """
    code = broker_code(error)
    return error.retriable if code is None else code in _COORDINATOR_MOVES
