"""Errors of herder requests and of requests between workers. REST converts them to HTTP
statuses.
"""

from __future__ import annotations

from connect.errors import (
    AuthenticationFailed,
    BrokerError,
    ConfigError,
    ConnectError,
    RetriableError,
)

__all__ = [
    "AlreadyExists",
    "BadRequest",
    "Forbidden",
    "LeaderRefused",
    "NotAssigned",
    "NotFound",
    "NotLeader",
    "RebalanceNeeded",
    "is_final",
]


class BadRequest(ConnectError):
    """The request is invalid; the message says why."""

    http_status = 400


class Forbidden(ConnectError):
    """The request is disabled by the worker's config, or its signature is wrong."""

    http_status = 403


class NotFound(ConnectError):
    """There is no such connector, task, plugin or logger."""

    http_status = 404


class AlreadyExists(ConnectError):
    """A connector of this name exists."""

    http_status = 409


class RebalanceNeeded(ConnectError):
    """A rebalance is pending, so this worker's view is outdated. Retry soon."""

    retriable = True
    http_status = 409


class _Forwardable(ConnectError):
    """Another worker must handle the request. `url`: its advertised URL, or None if unknown."""

    retriable = True
    http_status = 409

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


class NotLeader(_Forwardable):
    """Only the group's leader may do this."""


class NotAssigned(_Forwardable):
    """Only the worker that runs the connector or task may do this."""


class LeaderRefused(RetriableError):
    """The leader answered a request between workers with an error.

    `status` is the HTTP status. `final`: the leader said that a retry cannot help (`is_final`).
    """

    def __init__(self, message: str, status: int, *, final: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retriable = not final


def is_final(error: BaseException) -> bool:
    """Return whether an error of the leader's brokers comes back until someone changes a config or
    a permission.
    """
    return isinstance(error, BrokerError | AuthenticationFailed | ConfigError)
