"""Writes records that cannot be copied to a topic on the target, with their origin.

A quarantined record keeps its key, value, headers and timestamp. These headers are appended, all
UTF-8 text:

    __mirror.quarantine.cluster    alias of the source cluster
    __mirror.quarantine.topic      topic, partition and (first) offset on the source
    __mirror.quarantine.partition
    __mirror.quarantine.offset
    __mirror.quarantine.last.offset
    __mirror.quarantine.timestamp  the record's own, ms since 1970
    __mirror.quarantine.kind       record; or batch: the value is the bytes of a whole record batch
    __mirror.quarantine.reason     why

Delivery is at least once: after a crash a record may be in the topic twice. The topic is created if
it is missing. One thread does everything; it starts with the first record.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from queue import Empty, SimpleQueue

import confluent_kafka

from connect.clients.errors import from_librdkafka, translated
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.factory import producer
from connect.config.secrets import without_secrets
from connect.errors import ConnectError, DeadlineExceeded
from connect.log_fields import OwnedThread
from connectors.mirror.copy.quarantine import QuarantinedRecords

__all__ = ["HEADER_PREFIX", "QuarantineTopic"]

_LOG = logging.getLogger(__name__)

HEADER_PREFIX = "__mirror.quarantine."
LARGEST_BYTES = 100 * 1024 * 1024
"""The largest request that a broker accepts (`socket.request.max.bytes`)."""
_WRITE_S = 30.0
_CLOSE_S = 2.0

_Header = tuple[str, str | bytes | None]
_Item = tuple[QuarantinedRecords, "Future[None]"]


class QuarantineTopic:
    """A `Quarantine` that writes to a topic on the target."""

    def __init__(
        self,
        topic: str,
        cluster: str,
        replication_factor: int,
        producer_properties: Mapping[str, str],
        admin: Callable[[], Admin],
    ) -> None:
        """`cluster`: the source's alias. The properties are Java properties for the target
        cluster. `admin` makes its admin client."""
        self._topic = topic
        self._cluster = cluster
        self._factor = replication_factor
        self._producer_properties = dict(producer_properties)
        self._make_admin = admin
        self._items: SimpleQueue[_Item | None] = SimpleQueue()
        self._producer: confluent_kafka.Producer | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, aside: QuarantinedRecords) -> Future[None]:
        written: Future[None] = Future()
        self._items.put((aside, written))
        if self._thread is None:
            self._thread = OwnedThread(self._main, "quarantine")
            self._thread.start()
        return written

    def close(self) -> None:
        """Stop, even if the target is unavailable. Pending writes fail."""
        self._closed = True
        self._items.put(None)
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _main(self) -> None:
        while (item := self._items.get()) is not None:
            aside, written = item
            try:
                self._write(aside)
            except ConnectError as error:
                written.set_exception(error)
            except Exception as error:  # noqa: BLE001 - top of a thread; the partition reports it
                _LOG.exception(
                    "writing to the quarantine topic failed; this is a defect: report it with"
                    " the trace"
                )
                written.set_exception(ConnectError(f"{type(error).__name__}: {error}"))
            else:
                written.set_result(None)
        while True:
            try:
                rest = self._items.get_nowait()
            except Empty:
                return
            if rest is not None:
                rest[1].set_exception(ConnectError("the task has ended"))

    def _write(self, aside: QuarantinedRecords) -> None:
        if self._producer is None:
            self._create_topic()
            self._producer = producer(
                self._producer_properties,
                overrides={"message.max.bytes": LARGEST_BYTES, "enable.idempotence": True},
            )
        failed: list[confluent_kafka.KafkaError] = []
        done = threading.Event()

        def delivered(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
            if error is not None:
                failed.append(error)
            done.set()

        headers: list[_Header] = [*aside.headers, *_provenance(self._cluster, aside)]
        what, needs = f"a write to {self._topic}", f"Write on topic {self._topic}"
        with translated(what, needs):
            self._producer.produce(
                self._topic,
                value=aside.value,
                key=aside.key,
                headers=headers,
                timestamp=max(0, aside.timestamp),
                on_delivery=delivered,
            )
        left = _WRITE_S
        while not done.is_set() and left > 0 and not self._closed:
            self._producer.poll(0.2)
            left -= 0.2
        if failed:
            raise from_librdkafka(failed[0], what, needs)
        if not done.is_set():
            self._producer.purge()
            self._producer = None
            raise DeadlineExceeded(f"{what} took longer than {_WRITE_S:g} s")

    def _create_topic(self) -> None:
        with closing(self._make_admin()) as admin:
            created = admin.create_topic(
                self._topic, 1, self._factor, {"max.message.bytes": str(LARGEST_BYTES)}
            )
        if created:
            _LOG.info("created the quarantine topic %s", self._topic)


def _provenance(cluster: str, aside: QuarantinedRecords) -> list[_Header]:
    values = {
        "cluster": cluster,
        "topic": aside.source[0],
        "partition": aside.source[1],
        "offset": aside.first,
        "last.offset": aside.last,
        "timestamp": aside.timestamp,
        "kind": "batch" if aside.whole_batch else "record",
        # An exception of a transformation may quote its config.
        "reason": without_secrets(aside.reason),
    }
    return [(HEADER_PREFIX + name, str(value).encode()) for name, value in values.items()]
