"""Describe the members of a group of any protocol type: consumers, Connect workers, others."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from kafka.protocol.admin import DescribeGroupsRequest

from connect.clients.config.properties import wire_settings
from connect.clients.errors import error_from_code
from connect.clients.wire.find_coordinator import Coordinated, open_coordinator
from connect.clock import Deadline
from connect.loop import Backoff, retry
from connect.protocol.error_codes import ErrorCode

__all__ = ["GroupPeer", "group_members"]


@dataclass(frozen=True, slots=True)
class GroupPeer:
    """A group member as its coordinator reports it."""

    member_id: str
    client_id: str
    host: str

    def __str__(self) -> str:
        return f"{self.client_id} at {self.host.lstrip('/')}"


def group_members(props: Mapping[str, str], group: str, deadline: Deadline) -> list[GroupPeer]:
    """Return the members of a group; an empty list if the group does not exist.

    `props` are Java client properties. Retries retriable errors until the deadline. Raises one of
    `connect.errors`.
    """
    settings = wire_settings(props)

    def ask() -> list[GroupPeer]:
        with closing(open_coordinator(settings, Coordinated.GROUP, group, deadline)) as connection:
            answer = connection.call(DescribeGroupsRequest(groups=[group]), deadline)
        peers: list[GroupPeer] = []
        for found in answer.groups:
            if found.error_code and found.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                what = f"Describing group {group}"
                raise error_from_code(found.error_code, what, needs=f"Describe on group {group}")
            peers += [GroupPeer(m.member_id, m.client_id, m.client_host) for m in found.members]
        return peers

    return retry(ask, deadline, Backoff(0.1, 1.0))
