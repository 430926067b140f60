"""The JVM of the Spark driver: a child process whose owner starts and ends it.

PySpark could start it, but would put all properties, secrets included, on the command line, and its
start could not be cancelled. Here the properties go through a file that is deleted once it is read,
the start can be cancelled, the JVM's output goes to the log, and its last output explains a failed
start. The JVM ends with this process, because its standard input is then closed.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from connect.clock import Deadline
from connect.java_home import find_java
from connectors.spark.drivers.jvm_command import driver_command, lower_cpu_priority, spark_home
from connectors.spark.errors import SparkUnavailable, first_line
from connectors.spark.properties import properties_text
from connectors.spark.requirements import NO_JAVA, TOO_NEW_JAVA

__all__ = ["SparkJvm", "forget_context", "hush_accumulators", "is_stopped", "stop_context"]

_LOG = logging.getLogger("connectors.spark.driver")

_OPTIONS = "spark.driver.extraJavaOptions"
_POLL_S = 0.05
_KEPT_LINES = 60
_LOG_LINE = re.compile(r"(WARN|ERROR|FATAL|INFO|DEBUG) ([\w$.]+): (.*)")
_LEVELS = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.ERROR,
}
_UNRESOLVED = re.compile(r"\[?(unresolved dependency: [^\]]+|download failed: [^\]]+)\]?")
_environment = threading.Lock()

# This py4j logger reports every connection that ends.
logging.getLogger("py4j").setLevel(logging.WARNING)


def not_of_py4j(record: logging.LogRecord) -> bool:
    """Leave out lines that py4j's gateway logs to the root logger; its callers get the error."""
    return record.module != "java_gateway"


logging.getLogger().addFilter(not_of_py4j)


class SparkJvm:
    """One JVM. Call `start` once. Any thread may call `close`, also during `start`."""

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        low_priority: bool = False,
        own_directory: bool = False,
    ) -> None:
        """`low_priority`: at the lowest CPU priority of the system. `own_directory`: run in
        `directory`, where the driver's Python processes find the executors' relative path of
        Python; relative paths in properties stay those of this process."""
        self._properties = properties
        self._low_priority = low_priority
        self._own_directory = own_directory
        self.directory = Path(tempfile.mkdtemp(prefix="spark-driver-"))
        """A directory for files that are needed while the JVM runs. `close` deletes it."""
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process: subprocess.Popen[str] | None = None
        self._closing = threading.Event()
        self.gateway: Any = None
        self.conf = None
        """It was started with its configuration."""

    def start(self, deadline: Deadline) -> None:
        """Start the JVM and connect to it. Raises `SparkUnavailable`."""
        java = find_java(before=TOO_NEW_JAVA)
        if java is None:
            raise SparkUnavailable(NO_JAVA)
        file = self.directory / "spark.properties"
        file.touch(mode=0o600)
        properties = dict(self._properties)
        if self._own_directory:
            options = properties.get(_OPTIONS, "")
            properties[_OPTIONS] = f"-Duser.dir={shlex.quote(str(Path.cwd()))} {options}"
        file.write_text(properties_text(properties))
        connection = self.directory / "connection"
        process = subprocess.Popen(
            driver_command(java, file, properties),
            cwd=self.directory if self._own_directory else None,
            env={
                **os.environ,
                "JAVA_HOME": str(java.resolve().parent.parent),
                "SPARK_HOME": str(spark_home()),
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # Ctrl-C goes to the worker, which then closes the JVM.
            start_new_session=True,
        )
        self._process = process
        if self._low_priority:
            lower_cpu_priority(process.pid)
        assert process.stdout is not None
        threading.Thread(
            target=self._pump, args=(process.stdout,), name="spark-driver-log", daemon=True
        ).start()
        self._await(connection, process, deadline)
        self._connect(connection.read_bytes())
        file.unlink(missing_ok=True)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def last_words(self) -> str:
        """Return the JVM's last output, which explains why it ended."""
        lines = list(self._lines)
        for line in lines:
            if found := _UNRESOLVED.search(line):
                return found[1]
        for line in reversed(lines):
            if "Exception" in line or "Error" in line:
                return line
        return lines[-1] if lines else "no output"

    def give_up(self) -> None:
        """Cancel a running `start`, which then raises. No effect afterwards."""
        self._closing.set()

    def close(self, timeout: float) -> None:
        """End the JVM: close its input, then send signals. May be called repeatedly."""
        self._closing.set()
        gateway, self.gateway = self.gateway, None
        if gateway is not None:
            _forget(gateway)
        process = self._process
        if process is not None:
            _end(process, timeout)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _await(self, connection: Path, process: subprocess.Popen[str], deadline: Deadline) -> None:
        while not connection.exists():
            if process.poll() is not None:
                raise SparkUnavailable(
                    f"the Spark driver did not start; its last output: {self.last_words()}"
                )
            if deadline.expired():
                raise SparkUnavailable(
                    f"the Spark driver did not start in time; its last output: {self.last_words()}"
                )
            if self._closing.wait(_POLL_S):
                raise SparkUnavailable("Spark is being closed")

    def _connect(self, info: bytes) -> None:
        """Connect to the gateway. `info`: its port and secret, as PySpark's own server writes
        them."""
        port, size = struct.unpack_from(">ii", info)
        secret = info[8 : 8 + size].decode()
        with _gateway_variables(port, secret):
            self.gateway = launch_gateway()  # type: ignore[no-untyped-call]

    def _pump(self, stream: IO[str]) -> None:
        for line in stream:
            text = line.rstrip()
            if not text:
                continue
            self._lines.append(text)
            found = _LOG_LINE.match(text)
            level = _LEVELS[found[1]] if found else logging.DEBUG
            if self._closing.is_set():
                level = logging.DEBUG
            _LOG.log(level, "%s", f"{found[2]}: {found[3]}" if found else text)
        stream.close()


@contextmanager
def _gateway_variables(port: int, secret: str) -> Iterator[None]:
    """Set the two environment variables with which PySpark connects to a running JVM, only within
    the block."""
    values = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    with _environment:
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _forget(gateway: Any) -> None:
    """Disconnect, so that PySpark does not mistake a later JVM for this one."""
    try:
        gateway.shutdown()
    finally:
        if SparkContext._gateway is gateway:
            SparkContext._gateway = None
            SparkContext._jvm = None


def hush_accumulators(context: SparkContext) -> None:
    """Silence the traceback that PySpark's accumulator server prints on stderr when the JVM ends
    first. Users of Spark learn of the end from the session's state."""

    def ended(_request: object, _address: object) -> None:
        _LOG.debug("the Spark JVM closed a connection", exc_info=True)

    # Each Spark release has other classes of this server.
    server: Any = context._accumulatorServer
    server.handle_error = ended


def is_stopped(context: SparkContext) -> bool:
    """Whether the context was stopped, or its JVM does not answer."""
    try:
        return bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def stop_context(context: SparkContext) -> None:
    """Stop the context, as far as its JVM answers."""
    try:
        context.stop()
    except (Py4JError, OSError) as error:
        _LOG.debug("Cannot stop Spark properly, ending its JVM: %s", first_line(error))


def forget_context(context: SparkContext) -> None:
    """Clear the class variables in which PySpark keeps the context and session, even of a dead
    JVM."""
    with SparkContext._lock:
        if SparkContext._active_spark_context is context:
            SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if hasattr(SparkSession, "_activeSession"):
        SparkSession._activeSession = None


def _end(process: subprocess.Popen[str], timeout: float) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    for act in (process.terminate, process.kill):
        try:
            process.wait(timeout)
            return
        except subprocess.TimeoutExpired:
            act()
    process.wait(timeout)
