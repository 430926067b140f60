"""Returns results of RDDs and closes their sockets, which `RDD.collect` leaves to the garbage
collector."""

from __future__ import annotations

from typing import Any, TypeVar

import pyspark  # noqa: F401 - before its parts
from pyspark import RDD
from pyspark.util import local_connect_and_auth

__all__ = ["collect"]

T = TypeVar("T")


def collect(rdd: RDD[T]) -> list[T]:
    """Run a job and return all elements in order. Raises Spark's errors."""
    jvm = rdd.ctx._jvm
    assert jvm is not None
    served = jvm.PythonRDD.collectAndServe(rdd._jrdd.rdd())
    elements: Any = rdd._jrdd_deserializer
    stream, connection = local_connect_and_auth(served[0], served[1])
    with connection, stream:
        connection.settimeout(None)
        return list(elements.load_stream(stream))
