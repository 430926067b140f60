"""When a node counts as started: it answers a Metadata request with what was asked for."""

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
# A client that cannot connect logs every attempt; here that is expected, not news.
_SILENT = logging.Logger("deploy.brokers.readiness", level=logging.CRITICAL + 1)


def wait_until_serving(
    server: str, node_id: int, brokers: int, timeout_s: float, running: Callable[[], bool]
) -> None:
    """Wait until the broker at `server` names itself and at least `brokers` brokers.

    Raises `DeadlineExceeded`, or `ProcessFailed` as soon as `running` says no.
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
            raise ProcessFailed(f"Kafka node {node_id} ended instead of serving {server}")
        deadline.check(f"Start of Kafka node {node_id} at {server}")
        try:
            known = client.list_topics(timeout=min(_REQUEST_TIMEOUT_S, deadline.remaining()))
        except KafkaException:
            pause.wait(_POLL_S)
            continue
        # The node itself answers: a bootstrap address names no other.
        if node_id in known.brokers and len(known.brokers) >= brokers:
            return
        pause.wait(_POLL_S)
