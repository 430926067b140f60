"""Tells the two kinds of Spark sessions apart.

PySpark has classes for each, which only look alike: one of Spark Connect has no `SparkContext`, no
RDDs, and no JVM that this process could call. Their data frames, columns and functions are the
same. Executors import this module.
"""

from __future__ import annotations

from typing import Any

__all__ = ["is_remote"]


def is_remote(of: Any) -> bool:
    """Whether a session or a data frame is one of Spark Connect."""
    return type(of).__module__.startswith("pyspark.sql.connect.")
