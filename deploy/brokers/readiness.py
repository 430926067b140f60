"""Waits until a node has started: it must respond to a Metadata request with the expected
brokers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from connect.clock import Deadline
from deploy.brokers.errors import ProcessFailed

__all__ = ["wait_until_serving"]

_POLL_S = 0.05
_REQUEST_TIMEOUT_S = 2.0
# The client would log every failed attempt to connect, which is expected here.
_SILENT = logging.Logger("deploy.brokers.readiness", level=logging.CRITICAL + 1)


def wait_until_serving(
    server: str, node_id: int, brokers: int, timeout_s: float, running: Callable[[], bool]
) -> None:
    """Wait until the broker at `server` reports itself and at least `brokers` brokers.

    Raises `DeadlineExceeded`, or `ProcessFailed` as soon as `running` returns False.
    """
    deadline = Deadline(timeout_s)
    pause = threading.Event()
    client = AdminClient(
        {
            "bootstrap.servers": server,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        },
        logger=_SILENT,
    )
    while True:
        if not running():
            raise ProcessFailed(f"Kafka node {node_id} ended before it served {server}")
        deadline.check(f"Start of Kafka node {node_id} at {server}")
        try:
            known = client.list_topics(timeout=min(_REQUEST_TIMEOUT_S, deadline.remaining()))
        except KafkaException:
            pause.wait(_POLL_S)
            continue
        # The bootstrap address is the node's own, so this node responds.
        if node_id in known.brokers and len(known.brokers) >= brokers:
            return
        pause.wait(_POLL_S)
