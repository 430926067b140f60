"""A producer that follows its TLS stores.

librdkafka reads key and trust stores only when a client is made, so another client is made once
their files were replaced and nothing waits to be acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from connect.clients.librdkafka import factory
from connect.clients.security.store_files import StoreFiles
from connect.errors import ConfigError

__all__ = ["RenewedProducer"]

_log = logging.getLogger(__name__)


class RenewedProducer:
    """The part of confluent-kafka's producer that writers of one thread need. Belongs to that
    thread, which polls often."""

    def __init__(self, props: Mapping[str, str]) -> None:
        """`props`: Java properties. Raises `ConfigError`."""
        self._props = props
        self._stores = StoreFiles(props)
        self._due = False
        self._producer = factory.producer(props)

    def produce(self, topic: str, **record: Any) -> None:
        """Queue a record, as confluent-kafka does."""
        self._follow()
        self._producer.produce(topic, **record)

    def poll(self, timeout: float) -> int:
        """Call callbacks of records that were delivered or failed."""
        served = 0
        if self._due:
            # Events that wait to be served, such as log lines, count as well as records.
            served = self._producer.poll(0)
        self._follow()
        return served + self._producer.poll(timeout)

    def flush(self, timeout: float) -> int:
        """Wait until everything queued was delivered or failed; return how much was not."""
        return self._producer.flush(timeout)

    def purge(self) -> None:
        """Drop queued records."""
        self._producer.purge()

    def _follow(self) -> None:
        self._due = self._due or self._stores.changed()
        if not self._due or len(self._producer):
            return
        self._due = False
        try:
            self._producer = factory.producer(self._props)
        except ConfigError as error:
            _log.error("Keeping the producer with the previous TLS stores: %s", error)
