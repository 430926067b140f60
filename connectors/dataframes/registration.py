"""Makes the data source known to a Spark session, whoever made the session."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark  # noqa: F401 - before its parts
from pyspark import SparkContext
from pyspark.sql import SparkSession

from connect.cache_directory import cache_directory
from connect.errors import ConfigError
from connectors.dataframes.data_source import KafkaMirrorDataSource
from connectors.spark.drivers.session_kind import is_remote
from connectors.spark.packages import pack_code
from connectors.spark.properties import EXECUTOR_PYTHON, is_local
from connectors.spark.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

__all__ = ["register"]


def register(session: SparkSession | ConnectSession) -> None:
    """Register the data source `kafka_mirror` with a session, and send our code to where it needs
    it. May be called again.

    A session on a cluster needs `spark.pyspark.python` to be a Python with this program's
    dependencies, on the driver's host and on executors. With Spark Connect, that is the server's
    Python, and the server reads the file that the option `config` names. Raises `ConfigError`.
    """
    if is_remote(session):
        session.addArtifacts(str(pack_code(_directory())), pyfile=True)
    else:
        _ship(session.sparkContext)
    session.dataSource.register(KafkaMirrorDataSource)


def _ship(context: SparkContext) -> None:
    local = is_local(context.master or "")
    told = context.getConf().get(EXECUTOR_PYTHON) or os.environ.get("PYSPARK_PYTHON")
    includes: list[str] = context._python_includes or []
    if any(_is_ours(name) for name in includes):
        return  # A session of `open_frames`, or a second call.
    if not (local or told):
        raise ConfigError(
            f"{EXECUTOR_PYTHON} is not set, so executors on {context.master} have no Python with "
            "this program's dependencies: set it when the session is made, or use open_frames, "
            "which sends them",
            key=EXECUTOR_PYTHON,
        )
    cache = cache_directory()
    ship(context, cache if local else _directory(), cache)


def _is_ours(name: str) -> bool:
    return name.startswith("kafka-connect-mirror-")


def _directory() -> Path:
    """Return a directory for files that executors load as long as this process runs."""
    directory = tempfile.mkdtemp(prefix="kafka-mirror-frames-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)
