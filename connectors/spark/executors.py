"""What the executors' Python processes run."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from connectors.spark.properties import is_local

__all__ = ["use_this_python"]


def use_this_python(session: SparkSession) -> None:
    """Where executors are on this machine, they run this program's own interpreter, unless told."""
    context = session.sparkContext
    told = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if not told and is_local(context.master or ""):
        context.pythonExec = sys.executable
