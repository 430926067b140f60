"""What the process's session needs of its driver, wherever that runs."""

from __future__ import annotations

from typing import Protocol

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import SparkSession

from connect.clock import Deadline

__all__ = ["SparkDriver"]


class SparkDriver(Protocol):
    """One session and its driver. The owner calls `start` once; any thread may call the rest."""

    def start(self, deadline: Deadline) -> SparkSession:
        """Return the session. Raises `SparkUnavailable`, `ConfigError` and Spark's errors; then
        call `close`."""

    def why_lost(self) -> str:
        """Return why the session that was started is of no use any more; empty if it is."""

    def give_up(self) -> None:
        """Cancel a running `start` soon, which then raises. No effect afterwards."""

    def abort(self, timeout: float) -> None:
        """As `give_up`, and end what was started, if it takes no longer than `timeout` seconds."""

    def close(self, timeout: float) -> None:
        """End the session, and the driver if it is this process's. Each step takes at most
        `timeout` seconds. May be called repeatedly."""
