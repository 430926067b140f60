"""A log in a compacted Kafka topic: replay to the end, follow it, append, wait for the end.

Connect stores configs, offsets and statuses this way (KafkaBasedLog in Java). One thread of the log
reads all partitions, without a consumer group, and passes every record to `on_record`. The caller
interprets the records.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from connect.clients.cluster.topic_reader import LogRecord, TopicReader
from connect.clients.errors import broker_code, refused_or_unsupported
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigEntry
from connect.clients.librdkafka.record_sender import RecordSender
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectError,
    DeadlineExceeded,
    RetriableError,
)
from connect.log_fields import OwnedThread
from connect.loop import Backoff, retry
from connect.plugin import RecordMetadata
from connect.protocol.error_codes import ErrorCode

__all__ = ["LogRecord", "TopicLog", "TopicSpec", "ensure_compacted_topic"]

_log = logging.getLogger(__name__)

# The longest poll without records. A stop wakes it.
_POLL_S = 1.0
# Bounds of how long a stop waits for the reading thread, which has nothing to finish.
_LEAST_STOP_S, _LAST_POLL_S = 0.5, 2.0
# Backoff between reads that the broker refuses.
_REFUSED_FIRST_S, _REFUSED_CAP_S = 1.0, 15.0
# As in Java: every record is durable before the next, in order, with unlimited retries.
_PRODUCER_PROPERTIES = {
    "acks": "all",
    "max.in.flight.requests.per.connection": "1",
    "enable.idempotence": "false",
    "delivery.timeout.ms": "2147483647",
    "linger.ms": "0",
}

_CLEANUP_POLICY = "cleanup.policy"
_COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """Settings for creating a log's topic. -1 means the broker's default.

    `configs` are extra topic configs; the cleanup policy is always compact.
    """

    name: str
    partitions: int = 1
    replication_factor: int = 3
    configs: Mapping[str, str] = field(default_factory=dict)


def ensure_compacted_topic(admin: Admin, spec: TopicSpec, deadline: Deadline) -> None:
    """Create the topic. If it exists, check that it is compacted.

    Raises `ConfigError` for another cleanup policy, and the refusal if creating is not allowed and
    the topic does not exist. If describing is not allowed, it is assumed to exist with the right
    policy, as in Java.
    """

    def create() -> bool:
        try:
            configs = {**spec.configs, _CLEANUP_POLICY: _COMPACT}
            return admin.create_topic(
                spec.name,
                spec.partitions,
                spec.replication_factor,
                configs,
                timeout=max(1.0, deadline.remaining()),
            )
        except ConnectError as error:
            if refused_or_unsupported(error):
                if _is_missing(admin, spec.name, deadline):
                    raise
                return False
            if broker_code(error) == ErrorCode.INVALID_REPLICATION_FACTOR:
                # Passes when brokers that are still starting have registered, as in Java.
                raise RetriableError(str(error)) from error
            raise

    if retry(create, deadline, Backoff(0.1, 1.0)):
        _log.info("Created topic %s with %d partitions", spec.name, spec.partitions)
        return

    def describe() -> Mapping[str, Sequence[ConfigEntry]]:
        # Not every broker knows a topic yet that another worker has just created.
        return admin.describe_topic_configs([spec.name], max(1.0, deadline.remaining()))

    try:
        entries = retry(describe, deadline, Backoff(0.1, 1.0))
    except ConnectError as error:
        if refused_or_unsupported(error):
            _log.warning("Whether topic %s is compacted cannot be checked: %s", spec.name, error)
            return
        raise
    policy = next((e.value for e in entries[spec.name] if e.name == _CLEANUP_POLICY), None)
    if {part.strip() for part in (policy or "").split(",")} != {_COMPACT}:
        raise ConfigError(
            f"Topic '{spec.name}' has {_CLEANUP_POLICY}={policy}, but its records would be"
            f" deleted unless the policy is '{_COMPACT}'. Set {_CLEANUP_POLICY}={_COMPACT} on"
            f" the topic",
            key=_CLEANUP_POLICY,
            value=policy,
        )


def _is_missing(admin: Admin, topic: str, deadline: Deadline) -> bool:
    """Return whether a topic certainly does not exist."""
    try:
        return topic not in admin.describe_topics([topic], max(1.0, deadline.remaining()))
    except ConnectError as error:
        if refused_or_unsupported(error):
            return False
        raise


class _Refused(Exception):
    """A broker refused a read with an `error` that only an operator can fix, such as a missing
    permission.
    """

    def __init__(self, error: ConnectError) -> None:
        super().__init__(str(error))
        self.error = error


class TopicLog:
    """A log. Its owner calls `start` first and `stop` last.

    `send` and `read_to_end` are safe from any thread. `on_record` is called on the reading thread,
    in each partition's order. An exception from it ends the log, and later calls raise it. If
    brokers refuse reads, calls raise that error while reading is retried. If they refuse the login,
    calls and pending sends fail with `AuthenticationFailed`, and later ones try again.

    `client_properties` are Java client properties for reading, writing and administration. The
    settings that the log depends on are forced; `producer_properties` may override those of its
    producer. `consumer_properties` and `admin_properties` replace `client_properties` for reading
    and administration. With `create` None the topic must exist. `after` gives the offsets, by
    partition, from which to read, and `after_id` the id of the topic that has them. A topic with
    another id, or which ends before them, was created again, and is read from its beginning.
    """

    def __init__(
        self,
        topic: str,
        client_properties: Mapping[str, str],
        on_record: Callable[[LogRecord], None],
        *,
        create: TopicSpec | None = None,
        read_committed: bool = False,
        producer_properties: Mapping[str, str] | None = None,
        consumer_properties: Mapping[str, str] | None = None,
        admin_properties: Mapping[str, str] | None = None,
        after: Mapping[int, int] | None = None,
        after_id: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._topic = topic
        self._properties = dict(client_properties)
        self._producer_properties = {**_PRODUCER_PROPERTIES, **(producer_properties or {})}
        self._consumer_properties = dict(consumer_properties or client_properties)
        self._admin_properties = dict(admin_properties or client_properties)
        self._on_record = on_record
        self._create = create
        self._after = after or {}
        self._after_id = after_id
        self._topic_id: str | None = None
        self._read_committed = read_committed
        self._clock = clock
        self._admin: Admin | None = None
        self._sender: RecordSender | None = None
        self._sender_lock = threading.Lock()
        self._stopping = threading.Event()
        self._moved = threading.Condition()
        self._positions: dict[int, int] = {}
        self._failure: Exception | None = None
        self._reader: TopicReader | None = None
        self._thread = OwnedThread(self._read, f"log-{topic}")

    @property
    def partitions(self) -> int:
        """The topic's number of partitions; known after `start`."""
        return len(self._positions)

    @property
    def topic_id(self) -> str | None:
        """The topic's id; known after `start`, and before `on_record` is called."""
        return self._topic_id

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset to read of each partition."""
        with self._moved:
            return dict(self._positions)

    def start(self, deadline: Deadline) -> None:
        """Create or check the topic, and read it to its current end."""
        self._admin = Admin(self._admin_properties, needs_login=True)
        if self._create is not None:
            ensure_compacted_topic(self._admin, self._create, deadline)
        backoff = Backoff(0.02, 1.0)
        self._positions = retry(
            lambda: self._beginnings(deadline), deadline, backoff, self._stopping.wait
        )
        self._thread.start()
        self.read_to_end(deadline)

    def send(
        self, key: bytes | None, value: bytes | None, *, partition: int | None = None
    ) -> Future[RecordMetadata]:
        """Append a record. The future completes when all in-sync replicas have it."""
        return self._open_sender().send_future(self._topic, key, value, partition=partition)

    def read_to_end(self, deadline: Deadline) -> None:
        """Wait until all records that the log has at the time of the call were read, including own
        sends.

        Raises `DeadlineExceeded`, or the error that prevents reading.
        """
        if self._sender is not None and not self._sender.flush(deadline):
            raise DeadlineExceeded(f"Writing to topic {self._topic} did not finish in time")
        ends = retry(lambda: self._ends(deadline), deadline, Backoff(0.02, 1.0), self._pause)
        with self._moved:
            self._moved.wait_for(lambda: self._over() or self._reached(ends), deadline.remaining())
            if self._failure is not None:
                what, why = f"Reading topic {self._topic} failed", str(self._failure)
                text = why if why.startswith(what) else f"{what}: {why}"
                refused = isinstance(self._failure, AuthenticationFailed)
                raise (AuthenticationFailed if refused else ConnectError)(text) from self._failure
            if self._reached(ends):
                return
        if self._stopping.is_set():
            raise ConnectError(f"The log of topic {self._topic} is closed")
        reader = self._reader
        trouble = None if reader is None else reader.trouble
        raise DeadlineExceeded(
            f"Reading topic {self._topic} to its end did not finish in time"
            + (f": {trouble}" if trouble else "")
        )

    def stop(self, deadline: Deadline) -> None:
        """Finish pending sends, as far as the deadline allows, and close everything."""
        if self._sender is not None:
            self._sender.close(deadline)
        self._stopping.set()
        reader = self._reader
        if reader is not None:
            reader.wake()
        if self._thread.ident is not None:
            self._thread.join(max(_LEAST_STOP_S, min(_LAST_POLL_S, deadline.remaining())))
            if self._thread.is_alive():
                _log.warning(
                    "%s did not stop in time; nothing has to be done: it ends with the process",
                    self._thread.name,
                )
        with self._moved:
            self._moved.notify_all()
        if self._admin is not None:
            self._admin.close()

    def _pause(self, seconds: float) -> bool:
        return self._stopping.wait(seconds)

    def _over(self) -> bool:
        return self._failure is not None or self._stopping.is_set()

    def _reached(self, ends: Mapping[int, int]) -> bool:
        return all(self._positions[partition] >= end for partition, end in ends.items())

    def _opened_admin(self) -> Admin:
        if self._admin is None:
            raise ConnectError(f"The log of topic {self._topic} was not started")
        return self._admin

    def _open_sender(self) -> RecordSender:
        with self._sender_lock:
            if self._stopping.is_set():
                raise ConnectError(f"The log of topic {self._topic} is closed")
            if self._sender is None:
                self._sender = RecordSender(
                    {**self._properties, **self._producer_properties}, needs_login=True
                )
            return self._sender

    def _beginnings(self, deadline: Deadline) -> dict[int, int]:
        admin = self._opened_admin()
        timeout = max(1.0, deadline.remaining())
        described = admin.describe_topics([self._topic], timeout).get(self._topic)
        if described is None:
            raise RetriableError(f"Topic {self._topic} does not exist (yet)")
        self._topic_id = described.topic_id
        keys = [(self._topic, info.partition) for info in described.partitions]
        found = admin.beginning_offsets(keys, timeout)
        if not self._after or self._after_id not in (None, self._topic_id):
            return {partition: offset for (_, partition), offset in found.items()}
        ends = admin.end_offsets(keys, timeout)
        after = {
            key: self._after.get(key[1], 0) if self._after.get(key[1], 0) <= end else 0
            for key, end in ends.items()
        }
        # A topic that ends before the position was re-created, so all of its records are new.
        return {key[1]: max(offset, after[key]) for key, offset in found.items()}

    def _ends(self, deadline: Deadline) -> dict[int, int]:
        keys = [(self._topic, partition) for partition in self._positions]
        found = self._opened_admin().end_offsets(keys, max(1.0, deadline.remaining()))
        return {partition: offset for (_, partition), offset in found.items()}

    def _read(self) -> None:
        """Read until a stop. Runs as the reading thread."""
        backoff = Backoff(_REFUSED_FIRST_S, _REFUSED_CAP_S)
        try:
            while not self._stopping.is_set():
                try:
                    self._read_on(backoff)
                except _Refused as refused:
                    error = refused.error
                    if not backoff.failures:
                        _log.error("%s; retrying to read", error)
                    self._fail(error)
                    self._stopping.wait(backoff.next())
        except Exception as error:  # noqa: BLE001 - the top of a thread; waiting callers get it
            _log.error("Reading topic %s ended: %s", self._topic, error, exc_info=error)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        with self._moved:
            self._failure = error
            self._moved.notify_all()

    def _read_on(self, backoff: Backoff) -> None:
        """Read from the current positions until a stop. Raises `_Refused`."""
        reader = TopicReader(
            self._consumer_properties,
            self._topic,
            self._positions,
            read_committed=self._read_committed,
            clock=self._clock,
        )
        self._reader = reader
        try:
            while not self._stopping.is_set():
                self._turn(reader)
                if backoff.failures and reader.well:
                    _log.info("Reading topic %s works again", self._topic)
                    backoff.reset()
                    with self._moved:
                        self._failure = None
        finally:
            self._reader = None
            reader.close()

    def _turn(self, reader: TopicReader) -> None:
        try:
            found = reader.poll(_POLL_S)
        except ConnectError as error:
            raise _Refused(error) from error
        reached: dict[int, int] = {}
        for partition, records, position in found:
            for record in records:
                self._on_record(record)
            reached[partition] = position
        if reached:
            with self._moved:
                self._positions.update(reached)
                self._moved.notify_all()
