"""Look up group states with DescribeGroups, for brokers before Kafka 2.6, which do not list
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kafka.protocol.admin import DescribeGroupsRequest

from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.groups.ask_coordinators import ask_coordinators, slices
from connect.clients.wire.connection import WireConnection
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.protocol.error_codes import ErrorCode

__all__ = ["fetch_states"]

_DEAD = "Dead"
# Version 6 adds only an error message.
_NEWEST = 5


def fetch_states(
    settings: WireSettings, groups: Collection[str], deadline: Deadline
) -> dict[str, str | ConnectError]:
    """Return each group's state as its coordinator names it (`Empty`, `Stable`, ...).

    A group that does not exist is `Dead`. A group that cannot be queried has its error. Safe to
    call from any thread.
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
