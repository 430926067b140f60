"""Sends our code and its dependencies to a session's executors.

With a local master nothing is sent, because the executor is this process. Otherwise every session
sends our code, so that it has the driver's version. Dependencies are sent too, unless the
properties name the executors' Python (`spark.pyspark.python`).
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from pyspark import SparkContext

from connectors.spark.packages import cached_environment, frame_distributions, pack_code
from connectors.spark.properties import ENVIRONMENT, EXECUTOR_PYTHON, is_local

__all__ = ["ship"]


def ship(context: SparkContext, directory: Path, cache: Path, *, frames: bool = False) -> None:
    """Send this program's code to the context's executors. `directory`: for files that are needed
    as long as the context. `cache`: for files that other sessions reuse. `frames`: with the
    packages of Python data sources, for a JVM that runs in `directory`. Raises OSError, and
    ConfigError if a distribution is not installed."""
    told = context.getConf().get(EXECUTOR_PYTHON) or os.environ.get("PYSPARK_PYTHON")
    if is_local(context.master or ""):
        context.pythonExec = told or sys.executable
        return
    code = pack_code(directory)
    # Unpacked: Python loads compiled modules, and keeps what it compiles, only in a directory.
    # addPyFile would not unpack it, and would add it to this process's import path.
    context.addArchive(f"{code}#{code.stem}")
    context._python_includes.append(code.stem)  # type: ignore[union-attr]
    if told:
        context.pythonExec = told
    else:
        more = frame_distributions() if frames else ()
        context.addArchive(f"{cached_environment(cache, more)}#{ENVIRONMENT}")
        context.pythonExec = f"./{ENVIRONMENT}/bin/python"
    if frames:
        _serve_driver(directory, Path(context.pythonExec))


def _serve_driver(directory: Path, python: Path) -> None:
    """Make the executors' path of Python valid on the driver, which plans data sources by it."""
    if python.is_absolute() or len(python.parts) == 1:
        return
    launcher = directory / python
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    launcher.chmod(0o755)
