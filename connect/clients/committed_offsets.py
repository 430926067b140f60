"""What consumer groups have committed, asked of their coordinators over connections of our own.

Not through librdkafka: its admin client reads a null pointer, and takes the process along, when a
coordinator answers that it is none any more (NOT_COORDINATOR; librdkafka 2.16.1,
`rd_kafka_handle_OffsetFetch` without a consumer). Safe to use from any thread: each call opens what
it needs and closes it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from connect.clients.coordinators import Coordinated, any_broker, coordinator_address
from connect.clients.errors import error_from_code
from connect.clients.settings import WireSettings
from connect.clients.wire import WireConnection, open_connection
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.loop import Backoff

__all__ = ["Committed", "TopicPartitionKey", "fetch_committed"]

TopicPartitionKey = tuple[str, int]
Address = tuple[str, int]

_MANY_GROUPS = 8
"""The first version that asks for several groups at once."""
_NEWEST = 9
"""Later ones name topics by id."""
_MANY_KEYS = 4
"""The first version of FindCoordinator that asks for several groups at once."""
_AT_ONCE = 128
_GROUP_ID_NOT_FOUND = 69
_TRIES = 5
_RETRY_S, _RETRY_CAP_S = 0.2, 1.0


class Committed(NamedTuple):
    """A committed offset: the one to read next. `offset` None: forgotten by the broker."""

    offset: int | None
    metadata: str = ""


Offsets = dict[TopicPartitionKey, Committed]
Found = dict[str, "Offsets | ConnectError"]


def fetch_committed(settings: WireSettings, groups: Collection[str], deadline: Deadline) -> Found:
    """By group; nothing for a group that does not exist. One that could not be asked has its error.

    What time heals, a coordinator that moves or reads its log, is tried a few times.
    """
    found: Found = {}
    waiting = list(dict.fromkeys(groups))
    backoff = Backoff(_RETRY_S, _RETRY_CAP_S)
    for attempt in range(_TRIES):
        found.update(_ask_all(settings, waiting, deadline))
        waiting = [group for group in waiting if _worth_trying(found[group])]
        pause = backoff.next()
        if not waiting or attempt + 1 == _TRIES or deadline.remaining() <= pause:
            break
        threading.Event().wait(pause)
    return found


def _worth_trying(answer: Offsets | ConnectError) -> bool:
    return isinstance(answer, ConnectError) and answer.retriable


def _ask_all(settings: WireSettings, groups: Sequence[str], deadline: Deadline) -> Found:
    if not groups:
        return {}
    found: Found = {}
    homes: dict[Address, list[str]] = {}
    try:
        with closing(any_broker(settings, deadline)) as connection:
            for group, home in _coordinators(connection, groups, deadline):
                if isinstance(home, ConnectError):
                    found[group] = home
                else:
                    homes.setdefault(home, []).append(group)
    except ConnectError as error:
        return dict.fromkeys(groups, error)
    for home, own in homes.items():
        found.update(_ask_coordinator(settings, home, own, deadline))
    return found


def _coordinators(
    connection: WireConnection, groups: Sequence[str], deadline: Deadline
) -> Iterator[tuple[str, Address | ConnectError]]:
    api = FindCoordinatorRequest.API_KEY
    if connection.version_of(api, _MANY_KEYS, name="FindCoordinator") < _MANY_KEYS:
        for group in groups:
            try:
                yield group, coordinator_address(connection, Coordinated.GROUP, group, deadline)
            except ConnectError as error:
                if not error.retriable:
                    raise
                yield group, error
        return
    for slice_ in _slices(groups):
        request = FindCoordinatorRequest(
            key_type=Coordinated.GROUP.value, coordinator_keys=list(slice_)
        )
        for each in connection.call(request, deadline).coordinators:
            if each.error_code:
                what = f"Finding the coordinator of {each.key}"
                yield each.key, error_from_code(each.error_code, what)
            else:
                yield each.key, (each.host, each.port)


def _ask_coordinator(
    settings: WireSettings, home: Address, groups: Sequence[str], deadline: Deadline
) -> Found:
    found: Found = {}
    try:
        with closing(open_connection(*home, settings, deadline)) as connection:
            version = connection.version_of(
                OffsetFetchRequest.API_KEY, _NEWEST, lowest=2, name="OffsetFetch"
            )
            size = _AT_ONCE if version >= _MANY_GROUPS else 1
            for slice_ in _slices(groups, size):
                answer = connection.call(_request(slice_, version), deadline)
                if version < _MANY_GROUPS:
                    found[slice_[0]] = _offsets(slice_[0], answer)
                else:
                    found.update(
                        {one.group_id: _offsets(one.group_id, one) for one in answer.groups}
                    )
    except ConnectError as error:
        found.update({group: error for group in groups if group not in found})
    return found


def _slices(groups: Sequence[str], size: int = _AT_ONCE) -> Iterator[Sequence[str]]:
    return (groups[first : first + size] for first in range(0, len(groups), size))


def _request(groups: Sequence[str], version: int) -> Any:
    """For all topics of these groups."""
    if version < _MANY_GROUPS:
        return OffsetFetchRequest(version=version, group_id=groups[0], topics=None)
    one = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        version=version, groups=[one(group_id=group, topics=None) for group in groups]
    )


def _offsets(group: str, answer: Any) -> Offsets | ConnectError:
    if answer.error_code == _GROUP_ID_NOT_FOUND:
        return {}
    if answer.error_code:
        return error_from_code(answer.error_code, f"Reading the offsets of group {group}")
    return {
        (topic.name, each.partition_index): Committed(
            each.committed_offset if each.committed_offset >= 0 else None, _text(each.metadata)
        )
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }


def _text(metadata: str | None) -> str:
    """Without the end of a C string, which some clients count in and librdkafka does not take."""
    return (metadata or "").partition("\0")[0]
