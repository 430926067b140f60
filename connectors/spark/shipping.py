"""Brings our code and its Python packages to a session's executors.

With a local master there is nothing to bring: executors are this process's own. Elsewhere our code
goes with every session, so that it is the driver's everywhere. The packages it needs go with it,
too, unless the properties say which Python executors have (`spark.pyspark.python`).
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
    """Make this context's executors run what this program gives them. `directory`: where files may
    be that are needed as long as the context; `cache`: where those may be that others need, too.
    Raises OSError, and ConfigError where something is not installed."""
    told = context.getConf().get(EXECUTOR_PYTHON) or os.environ.get("PYSPARK_PYTHON")
    if is_local(context.master or ""):
        context.pythonExec = told or sys.executable
        return
    code = pack_code(directory)
    context.addFile(str(code))
    # Not by addPyFile, which also puts it on this process's own path.
    context._python_includes.append(code.name)  # type: ignore[union-attr]
    if told:
        context.pythonExec = told
        return
    context.addArchive(f"{cached_environment(cache)}#{ENVIRONMENT}")
    context.pythonExec = f"./{ENVIRONMENT}/bin/python"
