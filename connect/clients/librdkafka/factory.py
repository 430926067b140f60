"""Make librdkafka clients from Java client properties, with their logs in Python's logging.

Where librdkafka lacks the SASL mechanism, and where TLS stores are files, the client gets a
`SaslProxy`, which ends with it. librdkafka reads stores only when a client is made, the proxy for
each new connection.
Callers own the clients and close them. librdkafka writes its log lines into the client's event
queue. They reach Python only while the owner polls, so every owner polls.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import confluent_kafka
from confluent_kafka.admin import AdminClient

from connect.clients.config.properties import librdkafka_config, needs_proxy, wire_settings
from connect.clients.errors import from_librdkafka
from connect.clients.librdkafka.sasl_proxy import SaslProxy
from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConfigError, ConnectError

__all__ = ["ClientKind", "LibrdkafkaLog", "admin_client", "consumer", "producer"]

ClientKind = Literal["producer", "consumer", "admin"]

T = TypeVar("T")

LOGGER_NAME = "connect.clients.librdkafka"

# Often enough to show that a cluster is still unreachable, without flooding the log.
_REPEAT_S = 30.0
_INSTANCE = re.compile(r"#(?:producer|consumer)-\d+")


class LibrdkafkaLog:
    """Forwards librdkafka's log lines at suitable levels.

    librdkafka logs a lost connection as an error on every attempt, although it reconnects by itself
    and a call that fails raises. Its errors are therefore logged as warnings, one of each kind in
    `_REPEAT_S` seconds, and not at all once the owner has begun to close its client. Suppressed
    lines are logged at debug level. Safe to call from any thread.
    """

    def __init__(self, client_id: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._logger = logging.getLogger(LOGGER_NAME)
        self._client_id = client_id
        self._clock = clock
        self._shown_at: dict[object, float] = {}
        self.closing = False

    def log(self, level: int, text: str, *args: Any) -> None:
        """Log one line. confluent-kafka calls this like `logging.Logger.log`, with the kind
        first.
        """
        quiet = self.closing or level <= logging.INFO or not self._due(args[0] if args else text)
        shown_level = logging.DEBUG if quiet else logging.WARNING
        # Without the number of the instance, messages of one client after another are equal, of
        # which the log shows a few.
        args = tuple(_INSTANCE.sub("", each) if isinstance(each, str) else each for each in args)
        # The client's id may contain percent signs, which are no format.
        self._logger.log(shown_level, f"[%s] {text}", self._client_id, *args)

    def _due(self, kind: object) -> bool:
        now = self._clock.monotonic()
        shown_at = self._shown_at.get(kind)
        if shown_at is not None and now - shown_at < _REPEAT_S:
            return False
        self._shown_at[kind] = now
        return True


def _config(
    props: Mapping[str, str], kind: ClientKind, overrides: Mapping[str, Any] | None
) -> dict[str, Any]:
    config = librdkafka_config(props, kind)
    config.update(overrides or {})
    # Brokers close idle connections every few minutes. This is normal and not worth a log line.
    config.setdefault("log.connection.close", False)
    return config


def _log_for(config: Mapping[str, Any], kind: ClientKind) -> LibrdkafkaLog:
    return LibrdkafkaLog(str(config.get("client.id") or kind))


def _refused(kind: str, error: Exception) -> ConfigError:
    if isinstance(error, confluent_kafka.KafkaException):
        return ConfigError(str(from_librdkafka(error, f"Making the {kind}")))
    return ConfigError(f"Creating the {kind} failed: {error}")


class _Producer(confluent_kafka.Producer):
    """A producer that supports weak references, so that a proxy can end with it; confluent-kafka's
    own class does not.
    """


class _Consumer(confluent_kafka.Consumer):
    """A consumer that supports weak references, as `_Producer` does."""

    end_proxy: Callable[[], object] | None = None
    """Consumers are often in a cycle with their callbacks, so their proxy ends when they close."""

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self.end_proxy is not None:
                self.end_proxy()


def _made(
    kind: str,
    client_class: Callable[..., T],
    props: Mapping[str, str],
    config: dict[str, Any],
    log: LibrdkafkaLog,
) -> T:
    """Make a client, with a proxy of its own if it needs one."""

    def told(broker: str, error: ConnectError) -> None:
        log.log(logging.WARNING, "%s [proxy] %s", f"BROKER {broker}", error)

    proxy = SaslProxy(wire_settings(props), told) if needs_proxy(props) else None
    if proxy is not None:
        config.update(proxy.librdkafka_config())
    try:
        client = client_class(config, logger=log)
    except (confluent_kafka.KafkaException, ValueError, TypeError) as error:
        if proxy is not None:
            proxy.close()
        raise _refused(kind, error) from error
    if proxy is not None:
        end_proxy = weakref.finalize(client, proxy.close)
        if isinstance(client, _Consumer):
            client.end_proxy = end_proxy
    return client


def admin_client(
    props: Mapping[str, str],
    *,
    overrides: Mapping[str, Any] | None = None,
    log: LibrdkafkaLog | None = None,
) -> AdminClient:
    """Return an admin client from Java properties. Raises `ConfigError` for values librdkafka
    refuses.

    `overrides` have librdkafka's names and are applied last.
    """
    config = _config(props, "admin", overrides)
    return _made("admin client", AdminClient, props, config, log or _log_for(config, "admin"))


def producer(
    props: Mapping[str, str],
    *,
    overrides: Mapping[str, Any] | None = None,
    log: LibrdkafkaLog | None = None,
) -> confluent_kafka.Producer:
    """Return a producer from Java properties. It partitions records like Java's default
    partitioner.
    """
    config = _config(props, "producer", overrides)
    # Same as Java for every key that is not null; records without a key go to any partition.
    config.setdefault("partitioner", "murmur2_random")
    return _made("producer", _Producer, props, config, log or _log_for(config, "producer"))


def consumer(
    props: Mapping[str, str],
    *,
    overrides: Mapping[str, Any] | None = None,
    log: LibrdkafkaLog | None = None,
) -> confluent_kafka.Consumer:
    """Return a member of the consumer group `group.id`, from Java properties or `overrides`.

    Use `TopicReader` to read assigned partitions without a group: librdkafka looks up the
    coordinator of its group even then, which needs a permission on that group.
    """
    fixed = {"enable.auto.commit": False, "enable.auto.offset.store": False}
    config = _config(props, "consumer", {**fixed, **(overrides or {})})
    return _made("consumer", _Consumer, props, config, log or _log_for(config, "consumer"))
