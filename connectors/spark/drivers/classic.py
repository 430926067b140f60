"""A session whose driver is a JVM of this process: on this machine, or on a cluster."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping

from pyspark import SparkContext
from pyspark.sql import SparkSession

from connect.cache_directory import cache_directory
from connect.clock import Deadline
from connectors.spark.connector_jars import check_connector_jars
from connectors.spark.drivers.jvm import (
    SparkJvm,
    forget_context,
    hush_accumulators,
    is_stopped,
    stop_context,
)
from connectors.spark.drivers.submitted import SubmittedJvm
from connectors.spark.errors import SparkUnavailable
from connectors.spark.properties import (
    DRIVER_HOST,
    MASTER,
    is_local,
    session_properties,
    standalone_masters,
)
from connectors.spark.requirements import is_submitted
from connectors.spark.shipping import ship

__all__ = ["ClassicDriver"]

REACH_TIMEOUT_S = 5.0


class ClassicDriver:
    """A `SparkDriver`."""

    def __init__(
        self, given: Mapping[str, str], *, kafka: bool, frames: bool, background: bool
    ) -> None:
        """`given`: the users' `spark.*`; the rest as in `SessionSettings`."""
        self._props = session_properties(given, kafka=kafka, cache=cache_directory())
        self._frames = frames
        away = frames and not is_local(self._props[MASTER])
        self.jvm: SparkJvm | SubmittedJvm
        if is_submitted():
            self.jvm = SubmittedJvm(self._props)
        else:
            self.jvm = SparkJvm(self._props, low_priority=background, own_directory=away)
        self._context: SparkContext | None = None

    def start(self, deadline: Deadline) -> SparkSession:
        if (address := _reach(self._props[MASTER])) and "SPARK_LOCAL_IP" not in os.environ:
            self._props.setdefault(DRIVER_HOST, address)
        self.jvm.start(deadline)
        check_connector_jars(self._props)
        context = self._context = SparkContext(gateway=self.jvm.gateway, conf=self.jvm.conf)
        hush_accumulators(context)
        ship(context, self.jvm.directory, cache_directory(), frames=self._frames)
        return SparkSession(context)

    def why_lost(self) -> str:
        context = self._context
        if not self.jvm.alive:
            return self.jvm.last_words()
        return "its master is gone" if context is None or is_stopped(context) else ""

    def give_up(self) -> None:
        self.jvm.give_up()

    def abort(self, timeout: float) -> None:
        self.jvm.close(timeout)

    def close(self, timeout: float) -> None:
        context, self._context = self._context, None
        if context is not None and self.jvm.alive:
            stopping = threading.Thread(
                target=stop_context, args=(context,), name="spark-stop", daemon=True
            )
            stopping.start()
            stopping.join(timeout)
        self.jvm.close(timeout)
        if context is not None:
            forget_context(context)


def _reach(master: str) -> str | None:
    """Raise if no standalone master can be reached, because Spark itself would try for a minute and
    report little. Returns this machine's address as the master sees it, for executors to connect
    to."""
    masters = standalone_masters(master)
    reasons = []
    for host, port in masters:
        try:
            with socket.create_connection((host, port), REACH_TIMEOUT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    if masters:
        raise SparkUnavailable(f"Cannot reach the Spark master {master}: {', '.join(reasons)}")
    return None
