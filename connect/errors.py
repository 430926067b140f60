"""Every error of the framework, with the policy its handlers need.

    ConnectError                      something failed; fatal unless a subclass says otherwise
    ├── ConfigError                   a wrong key or value: names both, and what is allowed
    ├── RetriableError                the same call may succeed later
    │   ├── DeadlineExceeded          a wait reached its deadline
    │   ├── BrokerUnavailable         no connection to a broker, or it was lost
    │   └── RetriableBrokerError      a broker answered with a retriable error code
    ├── BrokerError                   a broker answered with a fatal error code
    ├── AuthenticationFailed          a broker refused our credentials, or we its certificate
    ├── CorruptData                   bytes that do not parse as what they claim to be
    ├── DataError                     a value that does not fit its schema, or what works on it
    ├── Interrupted                   given up, as who wanted it is being stopped; nothing is wrong
    └── TaskFailed                    a connector or task reported an unrecoverable error

Handlers ask the class (`retriable`, `http_status`), never the text.
"""

from __future__ import annotations

__all__ = [
    "AuthenticationFailed",
    "BrokerError",
    "BrokerUnavailable",
    "ConfigError",
    "ConnectError",
    "CorruptData",
    "DataError",
    "DeadlineExceeded",
    "Interrupted",
    "RetriableBrokerError",
    "RetriableError",
    "TaskFailed",
]


class ConnectError(Exception):
    """Root of the tree. `retriable`: whether trying again can help; `abortable`: whether it can
    once the open transaction was aborted; `http_status`: for REST."""

    retriable: bool = False
    abortable: bool = False
    http_status: int = 500


class ConfigError(ConnectError):
    """A property with a wrong key or value. The message names the key, the value and the remedy."""

    http_status = 400

    def __init__(self, message: str, *, key: str | None = None, value: object = None) -> None:
        super().__init__(message)
        self.key = key
        self.value = value


class RetriableError(ConnectError):
    """The operation failed for a reason that may pass."""

    retriable = True


class DeadlineExceeded(RetriableError):
    """A wait reached its deadline; the message says what was awaited and for how long."""


class BrokerUnavailable(RetriableError):
    """A broker could not be reached, or its connection was lost."""


class RetriableBrokerError(RetriableError):
    """A broker answered with a retriable Kafka error code. `code` is the protocol's number."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class BrokerError(ConnectError):
    """A broker answered with a Kafka error code that trying again cannot help."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class AuthenticationFailed(ConnectError):
    """SASL or TLS failed for good: wrong credentials, certificate, mechanism or protocol.

    The message never holds a secret. Trying again helps only after someone changed either side.
    """


class CorruptData(ConnectError):
    """Bytes that do not parse as what they claim to be."""


class DataError(ConnectError):
    """A value that does not fit its schema, or that a converter or transformation cannot take."""


class Interrupted(ConnectError):
    """Given up half-way, as whoever wanted it is being stopped. Nobody has to do anything."""


class TaskFailed(ConnectError):
    """A connector or task cannot go on; its status becomes FAILED with this message."""
