"""A session of a Spark Connect server (`spark.remote`), whose driver is another machine's.

The session is this process's own; the server and its executors are not. So the server's properties
count, and of the users' only those that a session may set (`spark.sql.*`). Nothing here needs Java.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import pyspark  # noqa: F401 - before its parts
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connect.clock import Deadline
from connectors.spark.errors import SparkUnavailable, first_line
from connectors.spark.properties import EXECUTOR_PYTHON, REMOTE, place_of, sql_defaults
from connectors.spark.requirements import why_no_spark
from connectors.spark.versions import SUPPORTED, kafka_connector

__all__ = ["SESSION_PYTHON", "RemoteDriver"]

_LOG = logging.getLogger(__name__)

SESSION_PYTHON = "spark.sql.execution.pyspark.python"
"""The Python of a session's tasks. `spark.pyspark.python` is of the whole server."""

_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""While this variable is set, PySpark's functions make columns for Spark Connect."""

_HIDDEN = "spark.sql.redaction.string.regex"
_KAFKA_OPTIONS = r'key: "kafka\.[^"]*"\s+value: "(?:[^"\\]|\\.)*"'
"""Options of Spark's Kafka source in a plan as the server's UI shows it: they contain passwords."""

# Some ten seconds instead of PySpark's ten minutes: a server that is gone is noticed, and periodic
# jobs are computed in the process meanwhile.
_RETRIES = {"max_retries": 6, "max_backoff": 4000}


class RemoteDriver:
    """A `SparkDriver`."""

    def __init__(self, given: Mapping[str, str], *, kafka: bool) -> None:
        """`given`: the users' `spark.*`, with `spark.remote`; `kafka`: it is to read with Spark's
        Kafka source."""
        self._given = given
        self._kafka = kafka
        self._place = place_of(given)
        self._given_up = threading.Event()
        self._session: Any = None

    def start(self, deadline: Deadline) -> SparkSession:
        if (problem := why_no_spark(self._given)) is not None:
            raise SparkUnavailable(problem)
        os.environ[_MODE] = "1"
        # Imported here: the packages of Spark Connect's client may be missing.
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        session: Any = RemoteSession(connection=self._given[REMOTE].strip())
        self._session = session
        session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
        try:
            self._check_version(session)
            self._configure(session)
            if self._kafka:
                self._check_kafka(session)
        except PySparkException as error:
            reason = first_line(error)
            raise SparkUnavailable(f"{self._place} gives no session: {reason}") from error
        if self._given_up.is_set():
            raise SparkUnavailable("Spark is being closed")
        RemoteSession._set_default_and_active_session(session)
        return cast(SparkSession, session)

    def why_lost(self) -> str:
        session = self._session
        try:
            session.conf.get("spark.sql.session.timeZone")
        except (PySparkException, OSError, ValueError) as error:
            return f"{self._place} does not answer: {first_line(error)}"
        return ""

    def give_up(self) -> None:
        self._given_up.set()

    def abort(self, timeout: float) -> None:
        self._given_up.set()

    def close(self, timeout: float) -> None:
        session, self._session = self._session, None
        if session is not None:
            stopping = threading.Thread(target=_stop, args=(session,), daemon=True)
            stopping.start()
            stopping.join(timeout)
        os.environ.pop(_MODE, None)

    def _check_version(self, session: Any) -> None:
        version = session.version
        if not version.startswith(SUPPORTED):
            raise SparkUnavailable(
                f"{self._place} runs Spark {version}, but this program needs a Spark Connect "
                "server of Spark 4.0 or 4.1"
            )

    def _configure(self, session: Any) -> None:
        """Set what a session may set, and say what only the server's properties can."""
        wanted = {**sql_defaults(), **self._given}
        if python := wanted.pop(EXECUTOR_PYTHON, ""):
            session.conf.set(SESSION_PYTHON, python)
        del wanted[REMOTE]
        ignored = []
        for key, value in wanted.items():
            if key.startswith("spark.sql.") and session.conf.isModifiable(key):
                session.conf.set(key, value)
            elif key in self._given:
                ignored.append(key)
        if ignored:
            _LOG.warning(
                "%s: only its own properties can set these, which are ignored: %s",
                self._place,
                ", ".join(sorted(ignored)),
            )

    def _check_kafka(self, session: Any) -> None:
        """Raise if the server has no Kafka source; else hide its options in the server's UI."""
        source = session.read.format("kafka").option("kafka.bootstrap.servers", "localhost:1")
        try:
            _ = source.option("subscribe", "none").load().schema
        except PySparkException as error:
            raise SparkUnavailable(
                f"{self._place} cannot read Kafka topics ({first_line(error)}): start the server "
                f"with --packages {kafka_connector()}"
            ) from error
        before = session.conf.get(_HIDDEN, "")
        session.conf.set(_HIDDEN, f"{before}|{_KAFKA_OPTIONS}" if before else _KAFKA_OPTIONS)


def _stop(session: Any) -> None:
    """End the session, as far as the server answers."""
    with suppress(PySparkException, OSError, ValueError):
        session.stop()
