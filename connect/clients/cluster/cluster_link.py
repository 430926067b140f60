"""Metadata of one cluster for a copier, and connections to its brokers.

A `ClusterLink` keeps the metadata of the watched topics fresh on its own thread and connection. It
also opens connections for its users, gets producer ids and looks up offsets. It never creates a
topic.

Threads: the link's own thread refreshes metadata and calls `on_change`. Each request to another
node runs on a short-lived thread, so that a node that hangs delays nothing else. Public methods may
be called from any thread; only `close` blocks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import closing
from typing import Any, Literal

from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from connect.clients.cluster.list_offsets import OffsetResult, OffsetsQuery, list_offsets
from connect.clients.cluster.metadata import (
    EMPTY_SNAPSHOT,
    ClusterSnapshot,
    TopicPartition,
    advance,
)
from connect.clients.cluster.metadata_refresh import RefreshSchedule
from connect.clients.cluster.offsets_for_leader_epoch import epoch_ends
from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.permissions import IDEMPOTENT_PRODUCER
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.connection import WireConnection
from connect.clients.wire.node_connector import (
    Address,
    KeptConnection,
    NodeConnector,
)
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import BrokerUnavailable, ConnectError, CorruptData
from connect.log_fields import OwnedThread
from connect.protocol.error_codes import ErrorCode, code_facts

__all__ = ["ClusterLink"]

log = logging.getLogger(__name__)

# Version 4 is the first that can query a topic without creating it.
OLDEST_METADATA = 4
# A broker answers metadata from memory. One that does not answer within this time is stopped or
# unreachable, and another broker already knows the new leaders. Java waits for request.timeout.ms.
METADATA_TIMEOUT_MS = 10_000
# Java's ratio of default.api.timeout.ms to request.timeout.ms: long enough to retry after one dead
# leader.
ATTEMPTS_PER_CALL = 2
CLOSE_TIMEOUT_S = 2.0


class ClusterLink:
    """Keeps the metadata of one cluster fresh.

    The thread starts with the object, and `close` ends it.
    """

    def __init__(
        self,
        settings: WireSettings,
        on_change: Callable[[], None],
        clock: Clock = SYSTEM_CLOCK,
        name: str = "cluster-link",
        topics: Collection[str] = (),
    ) -> None:
        """Start to watch `topics`, from the first refresh on.

        `on_change` is called on the link's thread after each new snapshot, and when refreshes begin
        to fail or fail for another reason. It must return at once and must not call `close`.
        """
        self._settings = settings
        self._on_change = on_change
        self._clock = clock
        self._name = name
        self._condition = threading.Condition()
        self._snapshot = EMPTY_SNAPSHOT
        self._failure: ConnectError | None = None
        self._watched = frozenset(topics)
        self._schedule = RefreshSchedule(settings, clock)
        self._closed = False
        self._rotation = 0
        self._bootstrap_only = True
        self._cancellation = Cancellation()
        self._connector = NodeConnector(settings, self._cancellation, clock)
        self._aside = OneShotThreads(name)
        self._thread = OwnedThread(self._run, f"{name}-metadata")
        self._thread.start()

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The newest snapshot; version 0 until the first response."""
        return self._snapshot

    @property
    def failure(self) -> ConnectError | None:
        """Why the last refresh failed; None if it succeeded.

        The link retries also errors that are not retriable, since credentials may be fixed on the
        broker.
        """
        return self._failure

    def watch_topics(self, names: Collection[str]) -> None:
        """Set the topics that future snapshots contain, and soon request metadata of the new
        ones.
        """
        wanted = frozenset(names)
        with self._condition:
            added = wanted - self._watched
            self._watched = wanted
            if added:
                self._schedule.request(added)
                self._condition.notify_all()

    def is_watched(self, topic: str) -> bool:
        return topic in self._watched

    def request_refresh(self, topics: Iterable[str] | None = None) -> None:
        """Request fresh metadata of these topics, or of all watched topics.

        Requests that arrive before the next refresh are merged.
        """
        with self._condition:
            wanted = self._watched if topics is None else self._watched.intersection(topics)
            self._schedule.request(wanted)
            self._condition.notify_all()

    def connect(self, node_id: int) -> Future[WireConnection]:
        """Open a connection to a node of the snapshot; the caller owns and closes it.

        Waits for the node's reconnect backoff first. Fails with `BrokerUnavailable` if the node is
        unknown or unreachable, and with the errors of `open_connection`.
        """

        def work() -> WireConnection:
            deadline = Deadline(self._settings.request_timeout_ms / 1000, self._clock)
            connection = self.open_node(node_id, deadline)
            connection.detach_cancellation()
            return connection

        return self._aside.run(f"connect-{node_id}", work, discard=WireConnection.close)

    def init_producer_id(self) -> Future[tuple[int, int]]:
        """Get a new (producer id, epoch) for an idempotent, non-transactional producer.

        Any node can answer. Retriable errors are retried on the next node for twice
        request.timeout.ms; then the last error is the result.
        """
        deadline = self._call_deadline()
        return self._aside.run("init-producer-id", lambda: self._init_producer_id(deadline))

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        isolation: Literal[0, 1] = 0,
        timeout_s: float | None = None,
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """Return the offsets at `timestamp` of partitions of watched topics, or the error of each.

        `timestamp` -1 means the end (with isolation 1 the last stable offset), -2 the log start.
        Any other value is in ms since the epoch and gives the first offset with that timestamp or a
        later one, -1 if there is none. Retriable errors are retried for `timeout_s`, by default
        twice request.timeout.ms.
        """
        wanted = frozenset(partitions)
        query = OffsetsQuery(timestamp, isolation)
        deadline = self._call_deadline() if timeout_s is None else Deadline(timeout_s, self._clock)

        def work() -> Mapping[TopicPartition, OffsetResult]:
            self._await_snapshot(EMPTY_SNAPSHOT.version, deadline)
            return list_offsets(self, wanted, query, deadline)

        return self._aside.run("list-offsets", work)

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], timeout_s: float
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """Return the end offset of the given epoch in each leader's log, or the error of each.

        Retriable errors are retried for `timeout_s`.
        """
        return epoch_ends(self, epochs, timeout_s, self._clock)

    def close(self) -> None:
        """End the link's threads and futures and close its sockets, within seconds.

        Connections that `connect` handed out belong to their owners. May be called again, but not
        from `on_change` or a callback of a future.
        """
        if threading.current_thread() is self._thread or self._aside.runs_here():
            raise RuntimeError("ClusterLink.close was called on one of the link's own threads")
        with self._condition:
            if self._closed:
                return
            self._closed = True
            self._condition.notify_all()
        self._aside.stop()
        self._cancellation.cancel()
        deadline = Deadline(CLOSE_TIMEOUT_S)
        self._thread.join(deadline.remaining())
        left = self._aside.join(deadline)
        if self._thread.is_alive():
            left.append(self._thread.name)
        if left:
            log.warning(
                "%s: threads that did not stop in time; nothing has to be done, they end "
                "with the process: %s",
                self._name,
                ", ".join(left),
            )
        else:
            self._cancellation.close()

    # The rest runs on the link's own threads.

    def open_node(self, node_id: int, deadline: Deadline) -> WireConnection:
        """Connect to a node. If that fails, request fresh metadata, because the node may have
        moved.
        """
        address = self._snapshot.nodes.get(node_id)
        if address is None:
            self.request_refresh()
            raise BrokerUnavailable(f"node {node_id} is not in the cluster's metadata")
        try:
            return self._connector.open(address, deadline)
        except ConnectError:
            self.request_refresh()
            raise

    def attempt_deadline(self, deadline: Deadline) -> Deadline:
        limit = self._settings.request_timeout_ms / 1000
        return Deadline(min(limit, deadline.remaining()), self._clock)

    def refresh_and_wait(self, topics: Iterable[str], attempt: int, deadline: Deadline) -> None:
        version = self._snapshot.version
        self.request_refresh(topics)
        self._pause(attempt, deadline)
        self._await_snapshot(version, deadline)

    def run_aside(self, what: str, function: Callable[[], Any]) -> Future[Any]:
        return self._aside.run(what, function)

    def _call_deadline(self) -> Deadline:
        seconds = ATTEMPTS_PER_CALL * self._settings.request_timeout_ms / 1000
        return Deadline(seconds, self._clock)

    def _await_snapshot(self, older: int, deadline: Deadline) -> None:
        """Wait for a snapshot newer than `older`, or for the deadline.

        Raises if the link is closed. Raises the refresh error if there is no snapshot yet.
        """
        with self._condition:
            while not self._closed and self._snapshot.version <= older and not deadline.expired():
                if not self._snapshot.version and self._failure and not self._failure.retriable:
                    raise self._failure
                self._condition.wait(deadline.remaining())
            if self._closed:
                raise BrokerUnavailable(f"{self._name} is closed")
            if not self._snapshot.version:
                raise self._failure or BrokerUnavailable(
                    f"{self._name}: did not get metadata in time"
                )

    def _pause(self, attempt: int, deadline: Deadline) -> None:
        pause = self._settings.retry_backoff_s(attempt)
        self._cancellation.wait(min(pause, deadline.remaining()))

    def _init_producer_id(self, deadline: Deadline) -> tuple[int, int]:
        attempt = 0
        while True:
            self._await_snapshot(EMPTY_SNAPSHOT.version, deadline)
            nodes = sorted(self._snapshot.nodes)
            node_id = nodes[(self._rotation + attempt) % len(nodes)]
            try:
                return self._ask_producer_id(node_id, self.attempt_deadline(deadline))
            except ConnectError as error:
                if not error.retriable or self._closed or deadline.expired():
                    raise
                log.info("%s: trying again: %s", self._name, error)
            self._pause(attempt, deadline)
            attempt += 1

    def _ask_producer_id(self, node_id: int, deadline: Deadline) -> tuple[int, int]:
        connection = self.open_node(node_id, deadline)
        try:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
            response = connection.call(request, deadline)
        finally:
            connection.close()
        if response.error_code:
            raise error_from_code(
                response.error_code, f"InitProducerId at {connection}", needs=IDEMPOTENT_PRODUCER
            )
        if response.producer_id < 0 or response.producer_epoch < 0:
            raise CorruptData(
                f"{connection} returned the invalid producer id {response.producer_id}, epoch"
                f" {response.producer_epoch}"
            )
        return response.producer_id, response.producer_epoch

    def _run(self) -> None:
        with closing(KeptConnection(self._connector, self._clock)) as own:
            while True:
                asked = self._next_refresh()
                if asked is None:
                    return
                self._try_refresh(own, asked)

    def _next_refresh(self) -> frozenset[str] | None:
        """Wait for the next refresh. Return its topics, or None if the link is closed."""
        with self._condition:
            while not self._closed:
                pause = self._schedule.due_in()
                if pause <= 0:
                    return self._schedule.take(self._watched)
                self._condition.wait(pause)
            return None

    def _try_refresh(self, own: KeptConnection, asked: frozenset[str]) -> None:
        try:
            connection = own.get(self._address(), self._metadata_deadline())
            response = self._fetch_metadata(connection, asked)
        except ConnectError as error:
            self._refresh_failed(own, asked, error)
        except Exception as error:
            log.exception(
                "%s: cannot refresh metadata, trying again; this is a defect: report it "
                "with the trace",
                self._name,
            )
            self._refresh_failed(own, asked, ConnectError(f"cannot refresh metadata: {error!r}"))
        else:
            own.succeeded()
            self._publish(response, asked)

    def _refresh_failed(
        self, own: KeptConnection, asked: frozenset[str], error: ConnectError
    ) -> None:
        own.lost()
        self._rotation += 1
        with self._condition:
            if self._closed:
                return
            self._schedule.failed(asked)
        self._set_failure(error)

    def _metadata_deadline(self) -> Deadline:
        limit_ms = min(self._settings.request_timeout_ms, METADATA_TIMEOUT_MS)
        return Deadline(limit_ms / 1000, self._clock)

    def _address(self) -> Address:
        """Return the next address: a bootstrap address or a known node, advanced after each
        failure.
        """
        known = [] if self._bootstrap_only else list(self._snapshot.nodes.values())
        candidates = list(dict.fromkeys([*known, *self._settings.bootstrap]))
        return candidates[self._rotation % len(candidates)]

    def _fetch_metadata(self, connection: WireConnection, asked: frozenset[str]) -> Any:
        version = connection.version_of(
            MetadataRequest.API_KEY, MetadataRequest.max_version, OLDEST_METADATA, "MetadataRequest"
        )
        request = MetadataRequest(
            version=version,
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(asked)],
            allow_auto_topic_creation=False,
        )
        response = connection.call(request, self._metadata_deadline())
        if response.error_code:
            self._bootstrap_only = response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
            raise error_from_code(response.error_code, f"MetadataRequest to {connection}")
        if not response.brokers:
            raise BrokerUnavailable(f"{connection} returned metadata without brokers")
        return response

    def _publish(self, response: Any, asked: frozenset[str]) -> None:
        # Copiers set topics and request refreshes while they copy, and must not wait for the
        # comparison of thousands of partitions. Only this thread replaces the snapshot.
        before = self._snapshot
        snapshot = advance(before, response, self._watched, asked)
        changed = (
            snapshot.leaders != before.leaders
            or snapshot.nodes != before.nodes
            or snapshot.topic_ids != before.topic_ids
            or snapshot.errors != before.errors
            or snapshot.partition_errors != before.partition_errors
        )
        partitions = sum(snapshot.partition_counts.get(name, 0) for name in asked)
        unsettled = _unsettled(snapshot)
        with self._condition:
            self._snapshot = snapshot
            self._bootstrap_only = False
            self._schedule.succeeded(asked, partitions, changed, unsettled)
            recovered = self._failure is not None
            self._failure = None
            self._condition.notify_all()
        if recovered:
            log.info("%s: metadata is fresh again", self._name)
        self._tell()

    def _set_failure(self, error: ConnectError) -> None:
        with self._condition:
            # Log only the first failure of a kind: the texts differ by node.
            known = type(self._failure) is type(error)
            self._failure = error
            self._condition.notify_all()
        if not known:
            log.warning("%s: no fresh metadata, asking again: %s", self._name, error)
            self._tell()

    def _tell(self) -> None:
        try:
            self._on_change()
        except Exception:
            log.exception(
                "%s: on_change failed; this is a defect: report it with the trace", self._name
            )


def _unsettled(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Return the topics that will change soon: those with a retriable error or without a leader."""
    topics = {topic for topic, code in snapshot.errors.items() if code_facts(code).retriable}
    for key in snapshot.partition_errors:
        if key not in snapshot.leaders:
            topics.add(key[0])
    return frozenset(topics)
