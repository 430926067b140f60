"""Sends our code and its dependencies to a session's executors.

With a local master nothing is sent, because the executor is this process. Otherwise every session
sends our code, so that it has the driver's version. Dependencies are sent too, unless the
properties name the executors' Python (`spark.pyspark.python`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark import SparkContext

from connectors.spark.packages import cached_environment, pack_code
from connectors.spark.properties import ENVIRONMENT, EXECUTOR_PYTHON, is_local

__all__ = ["ship"]


def ship(context: SparkContext, directory: Path, cache: Path) -> None:
    """Send this program's code to the context's executors. `directory`: for files that are needed
    as long as the context. `cache`: for files that other sessions reuse. Raises OSError, and
    ConfigError if a distribution is not installed."""
    told = context.getConf().get(EXECUTOR_PYTHON) or os.environ.get("PYSPARK_PYTHON")
    if is_local(context.master or ""):
        context.pythonExec = told or sys.executable
        return
    code = pack_code(directory)
    context.addFile(str(code))
    # addPyFile would also add it to this process's import path.
    context._python_includes.append(code.name)  # type: ignore[union-attr]
    if told:
        context.pythonExec = told
        return
    context.addArchive(f"{cached_environment(cache)}#{ENVIRONMENT}")
    context.pythonExec = f"./{ENVIRONMENT}/bin/python"
