"""A Spark session for a program that cannot go on without one, while a block of code runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from connectors.spark.errors import SparkUnavailable
from connectors.spark.session import SharedSession

__all__ = ["own_session"]

_START_S = 300.0


@contextmanager
def own_session(
    who: str, props: Mapping[str, str], *, kafka: bool = False
) -> Iterator[SparkSession]:
    """A session as the `spark.*` of `props` say, `kafka`: with Spark's Kafka source; it ends with
    the block. Raises `SparkUnavailable` where there is none within five minutes."""
    shared, ready = SharedSession(), threading.Event()
    try:
        lease = shared.acquire(who, props, kafka=kafka, on_ready=ready.set)
        if not ready.wait(_START_S) or lease.session is None:
            raise SparkUnavailable(f"Spark is not there: {lease.state}")
        yield lease.session
    finally:
        shared.close()
