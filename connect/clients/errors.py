"""Convert the clients' errors to the framework's.

There are three sources: protocol error codes (from the batch copier), librdkafka's errors (from
confluent-kafka) and kafka-python's. All become errors of `connect.errors`. Pure functions: safe to
call from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka
import kafka.errors

from connect.errors import (
    AuthenticationFailed,
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    ConnectError,
    CorruptData,
    DeadlineExceeded,
    RetriableBrokerError,
    RetriableError,
)
from connect.protocol.error_codes import ErrorCode, code_facts

__all__ = [
    "broker_code",
    "error_from_code",
    "from_kafka_python",
    "from_librdkafka",
    "not_authorized",
    "refused_or_unsupported",
    "translated",
]


_NOT_AUTHORIZED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


_QUOTED_REQUEST = "Request Request("
"""Begin of the text of some refusals: an internal form of the whole request, and nothing else."""


def error_from_code(
    code: int, what: str, message: str | None = None, needs: str | None = None
) -> ConnectError:
    """Return the error for a code in a broker's response.

    `what` names the request and begins the text ("Produce to a.t-3 on broker 2"). `message` is the
    broker's own text, if the response has one. `needs` is the permission to grant if the broker
    denies access ("Write on topic a.t").
    """
    facts = code_facts(code)
    text = f"{what} failed: {facts.name} ({code})"
    if message and message != facts.name and not message.startswith(_QUOTED_REQUEST):
        text = f"{text}: {message}"
    if needs and code in _NOT_AUTHORIZED:
        text = f"{text.rstrip('.')}; grant {needs}"
    if code == ErrorCode.SASL_AUTHENTICATION_FAILED:
        return AuthenticationFailed(text)
    if facts.retriable:
        return RetriableBrokerError(text, code)
    return BrokerError(text, code)


def not_authorized(error: BaseException) -> bool:
    """Return whether a broker refused the request because of a missing permission."""
    return broker_code(error) in _NOT_AUTHORIZED


def refused_or_unsupported(error: BaseException) -> bool:
    """Return whether a broker refused the request for a missing permission or an unsupported
    version.
    """
    return not_authorized(error) or broker_code(error) == ErrorCode.UNSUPPORTED_VERSION


def broker_code(error: BaseException) -> int | None:
    """Return the protocol code of one of our broker errors, or None if it has none."""
    if isinstance(error, RetriableBrokerError | BrokerError):
        return error.code
    return None


_Code = confluent_kafka.KafkaError

_LIBRDKAFKA_UNAVAILABLE = frozenset(
    {
        _Code._TRANSPORT,
        _Code._ALL_BROKERS_DOWN,
        _Code._RESOLVE,
        _Code._DESTROY_BROKER,
        _Code._UNKNOWN_BROKER,
    }
)
_LIBRDKAFKA_TIMEOUT = frozenset({_Code._TIMED_OUT, _Code._MSG_TIMED_OUT, _Code._TIMED_OUT_QUEUE})
_LIBRDKAFKA_RETRIABLE = frozenset(
    {
        _Code._QUEUE_FULL,
        _Code._RETRY,
        _Code._WAIT_COORD,
        _Code._WAIT_CACHE,
        _Code._PREV_IN_PROGRESS,
        _Code._IN_PROGRESS,
        _Code._OUTDATED,
    }
)
_LIBRDKAFKA_SETUP = frozenset({_Code._INVALID_ARG, _Code._NOT_CONFIGURED, _Code._NOT_IMPLEMENTED})
_LIBRDKAFKA_LOGIN = frozenset({_Code._AUTHENTICATION, _Code._SSL})
_LIBRDKAFKA_CORRUPT = frozenset({_Code._BAD_MSG, _Code._BAD_COMPRESSION})
_LIBRDKAFKA_UNKNOWN_TOPIC = frozenset({_Code._UNKNOWN_TOPIC, _Code._UNKNOWN_PARTITION})


_WRITES_AT_ONCE = "Unable to produce message: "
"""What confluent-kafka puts before an error that `produce` raises, because the producer knows it
already. The same error in a delivery report has it not."""


def from_librdkafka(
    error: confluent_kafka.KafkaError | confluent_kafka.KafkaException,
    what: str,
    needs: str | None = None,
) -> ConnectError:
    """Convert a confluent-kafka error. `what` and `needs` are as in `error_from_code`."""
    if isinstance(error, confluent_kafka.KafkaException):
        inner = error.args[0] if error.args else None
        if not isinstance(inner, confluent_kafka.KafkaError):
            return ConnectError(f"{what} failed: {error}")
        error = inner
    code, detail = error.code(), error.str().removeprefix(_WRITES_AT_ONCE)
    if code >= ErrorCode.UNKNOWN_SERVER_ERROR:
        return error_from_code(code, what, detail, needs)
    text = f"{what} failed: {error.name()}: {detail}"
    if code in _LIBRDKAFKA_UNAVAILABLE:
        return BrokerUnavailable(text)
    if code in _LIBRDKAFKA_TIMEOUT:
        return DeadlineExceeded(text)
    if code in _LIBRDKAFKA_UNKNOWN_TOPIC:
        return RetriableBrokerError(text, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if code == _Code._NOENT:
        # librdkafka's answer to listing offsets of partitions that have no leader, or do not exist
        # yet.
        return RetriableBrokerError(text, ErrorCode.LEADER_NOT_AVAILABLE)
    if code in _LIBRDKAFKA_LOGIN:
        return AuthenticationFailed(text)
    if code in _LIBRDKAFKA_SETUP:
        return ConfigError(text)
    if code in _LIBRDKAFKA_CORRUPT:
        return CorruptData(text)
    if code in _LIBRDKAFKA_RETRIABLE or (error.retriable() and not error.fatal()):
        return RetriableError(text)
    return ConnectError(text)


def from_kafka_python(error: BaseException, what: str, needs: str | None = None) -> ConnectError:
    """Convert an error of kafka-python or a socket error of the operating system.

    `what` and `needs` are as in `error_from_code`.
    """
    text = f"{what} failed: {error}"
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, kafka.errors.BrokerResponseError):
        detail = str(error.args[0]) if error.args else None
        return error_from_code(int(error.errno), what, detail, needs)
    if isinstance(error, kafka.errors.KafkaConnectionError | kafka.errors.NodeNotReadyError):
        return BrokerUnavailable(text)
    if isinstance(error, kafka.errors.KafkaTimeoutError | TimeoutError):
        return DeadlineExceeded(text)
    if isinstance(error, OSError):
        return BrokerUnavailable(text)
    if isinstance(error, kafka.errors.KafkaConfigurationError):
        return ConfigError(text)
    if isinstance(error, kafka.errors.KafkaError) and error.retriable:
        return RetriableError(text)
    return ConnectError(text)


@contextmanager
def translated(what: str, needs: str | None = None) -> Iterator[None]:
    """Convert confluent-kafka errors raised in a block to ours, with the original as the cause.

    `what` and `needs` are as in `error_from_code`.
    """
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raise from_librdkafka(error, what, needs) from error
    except BufferError as error:
        raise RetriableError(f"{what} failed: the producer's queue is full") from error
