"""Query the coordinators of many groups at once, over raw connections.

One connection finds the coordinator of each group; then each coordinator is queried for all of its
groups. Retriable errors, such as a coordinator that moves or loads its log, are retried a few
times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.wire.connection import WireConnection, open_connection
from connect.clients.wire.find_coordinator import Coordinated, any_broker, coordinator_address
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.loop import Backoff, is_retriable

__all__ = ["Ask", "ask_coordinators", "slices"]

T = TypeVar("T")
Address = tuple[str, int]
Ask = Callable[[WireConnection, Sequence[str]], Iterator[tuple[str, "T | ConnectError"]]]
"""Queries one coordinator for some groups, and yields each group's result as it arrives. If it
raises `ConnectError`, that is the result of the remaining groups.
"""

_MANY_KEYS = 4
"""The first version of FindCoordinator that accepts several groups."""
_AT_ONCE = 128
_TRIES = 5
_RETRY_S, _RETRY_CAP_S = 0.2, 1.0


def ask_coordinators(
    settings: WireSettings,
    groups: Collection[str],
    ask: Ask[T],
    deadline: Deadline,
    worth_trying: Callable[[ConnectError], bool] = is_retriable,
) -> dict[str, T | ConnectError]:
    """Return the results by group. A group whose coordinator cannot be queried has the error.

    `worth_trying` decides whether a group with this error is queried again.
    """
    found: dict[str, T | ConnectError] = {}
    waiting = list(dict.fromkeys(groups))
    backoff = Backoff(_RETRY_S, _RETRY_CAP_S)
    for attempt in range(_TRIES):
        answers = _ask_all(settings, waiting, ask, deadline)
        found.update(answers)
        waiting = [
            group
            for group, answer in answers.items()
            if isinstance(answer, ConnectError) and worth_trying(answer)
        ]
        pause = backoff.next()
        if not waiting or attempt + 1 == _TRIES or deadline.remaining() <= pause:
            break
        threading.Event().wait(pause)
    return found


def slices(groups: Sequence[str], size: int = _AT_ONCE) -> Iterator[Sequence[str]]:
    """Yield as many groups as fit in one request."""
    return (groups[first : first + size] for first in range(0, len(groups), size))


def _ask_all(
    settings: WireSettings, groups: Sequence[str], ask: Ask[T], deadline: Deadline
) -> dict[str, T | ConnectError]:
    if not groups:
        return {}
    found: dict[str, T | ConnectError] = {}
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
        try:
            with closing(open_connection(*home, settings, deadline)) as connection:
                found.update(ask(connection, own))
        except ConnectError as error:
            found.update({group: error for group in own if group not in found})
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
    for slice_ in slices(groups):
        request = FindCoordinatorRequest(
            key_type=Coordinated.GROUP.value, coordinator_keys=list(slice_)
        )
        for each in connection.call(request, deadline).coordinators:
            if each.error_code:
                what = f"Finding the coordinator of {each.key}"
                needs = f"Describe on group {each.key}"
                yield each.key, error_from_code(each.error_code, what, needs=needs)
            else:
                yield each.key, (each.host, each.port)
