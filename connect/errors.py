"""The framework's errors. The class of an error decides how it is handled.

    ConnectError                      any failure; fatal unless a subclass is retriable
    ├── ConfigError                   a wrong key or value; the message says what is allowed
    ├── RetriableError                the same call may succeed later
    │   ├── DeadlineExceeded          an operation took too long
    │   ├── BrokerUnavailable         a broker is unreachable, or its connection was lost
    │   └── RetriableBrokerError      a broker returned a retriable error code
    ├── BrokerError                   a broker returned a fatal error code
    ├── AuthenticationFailed          invalid credentials or an untrusted certificate
    ├── CorruptData                   bytes that cannot be parsed in the expected format
    ├── DataError                     a value that does not match its schema or its converter
    ├── Interrupted                   cancelled because the task or worker is stopping
    └── TaskFailed                    a connector or task reported an unrecoverable error

Handlers check attributes of the class (`retriable`, `http_status`), never the text.
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
    """Root of the tree.

    `retriable`: a retry can help. `abortable`: a retry can help after the open transaction was
    aborted. `http_status`: the status of the REST response.
    """

    retriable: bool = False
    abortable: bool = False
    http_status: int = 500


class ConfigError(ConnectError):
    """A property with an unknown key or an invalid value. The message names key, value and
    remedy.
    """

    http_status = 400

    def __init__(self, message: str, *, key: str | None = None, value: object = None) -> None:
        super().__init__(message)
        self.key = key
        self.value = value


class RetriableError(ConnectError):
    """The operation failed for a temporary reason."""

    retriable = True


class DeadlineExceeded(RetriableError):
    """A wait reached its deadline; the message names the operation and the time limit."""


class BrokerUnavailable(RetriableError):
    """A broker is unreachable, or its connection was lost."""


class RetriableBrokerError(RetriableError):
    """A broker returned a retriable Kafka error code. `code` is the number in the protocol."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class BrokerError(ConnectError):
    """A broker returned a Kafka error code that is not retriable."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class AuthenticationFailed(ConnectError):
    """SASL or TLS failed: wrong credentials, certificate, mechanism or protocol.

    The message never contains a secret. A retry helps only after a change of the client's or the
    broker's configuration.
    """


class CorruptData(ConnectError):
    """Bytes that cannot be parsed in the expected format."""


class DataError(ConnectError):
    """A value that does not match its schema, or that a converter or transformation cannot
    handle.
    """


class Interrupted(ConnectError):
    """An operation was cancelled because its task or worker is stopping. Nothing is wrong."""


class TaskFailed(ConnectError):
    """A connector or task cannot continue; its status becomes FAILED with this message."""
