"""Fixtures shared by all tests: one pair of real clusters per session, started when asked for.

Tests never share topics or groups: names come from `tests.support.records.topics.unique`. Logs of
brokers and mirrors are in `build/test-logs/<process id>`; they stay there when a test failed.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from connect.log_fields import without_log_fields
from deploy.brokers import (
    KAFKA_VERSION,
    OLD_VERSIONS,
    KafkaCluster,
    KafkaRuntime,
    kafka_runtime,
)
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The one profile of all tests. An example that takes long on a busy machine is no finding, nor is
# one that is made slowly.
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")

# Folders whose tests are marked with the folder's name, so that `-m` can choose.
_MARKED = ("integration", "compat", "faults")
_TESTS = Path(__file__).parent
# Tests write records with timestamps of long ago, which are not to disappear in the middle of one.
_KEEP = {"log.retention.ms": "-1"}
_LOGS = _TESTS.parent / "build" / "test-logs" / str(os.getpid())
# The history of the mirrors that tests start is not the user's.
os.environ["XDG_STATE_HOME"] = str(_LOGS / "state")


def pytest_addoption(parser: pytest.Parser) -> None:
    for side in ("source", "target"):
        parser.addoption(
            f"--{side}-version",
            default=KAFKA_VERSION,
            choices=(*OLD_VERSIONS, KAFKA_VERSION),
            help=f"the Kafka version of the session's {side} cluster (default: {KAFKA_VERSION})",
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        if folder in _MARKED:
            item.add_marker(folder)


def pytest_collection_finish() -> None:
    """Leave out of garbage collections what is there anyway until the end: modules and thousands
    of tests. Without that, each collection walked them all."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(_LOGS, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if exitstatus != pytest.ExitCode.OK and _LOGS.exists():
        terminalreporter.write_line(f"Logs of brokers and mirrors: {_LOGS}")


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Programs set up the log of the whole process, and tasks that a test starts on its own thread
    add fields to its lines: each test gets the log as it was."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, logging.root.manager.disable
    with without_log_fields():
        yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.disable(disabled)


@pytest.fixture(scope="session")
def kafka() -> KafkaRuntime:
    """Java and Kafka's jars."""
    return kafka_runtime()


@pytest.fixture(scope="session")
def session_logs() -> Path:
    """Where logs of the session's clusters go."""
    _LOGS.mkdir(parents=True, exist_ok=True)
    return _LOGS


@pytest.fixture
def logs(session_logs: Path, request: pytest.FixtureRequest) -> Path:
    """A folder for the logs of one test."""
    folder = session_logs / re.sub(r"[^\w.-]+", "_", request.node.name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def source_cluster(session_logs: Path, pytestconfig: pytest.Config) -> Iterator[KafkaCluster]:
    """A single-node cluster to copy from. Tests that kill brokers make clusters of their own."""
    kafka = kafka_runtime(version=pytestconfig.getoption("--source-version"))
    with KafkaCluster(name="source", properties=_KEEP, kafka=kafka, logs=session_logs) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def target_cluster(session_logs: Path, pytestconfig: pytest.Config) -> Iterator[KafkaCluster]:
    """A single-node cluster to copy to."""
    kafka = kafka_runtime(version=pytestconfig.getoption("--target-version"))
    with KafkaCluster(name="target", properties=_KEEP, kafka=kafka, logs=session_logs) as cluster:
        yield cluster


@pytest.fixture
def listener() -> Iterator[str]:
    """An address for `metrics.listener` that nobody else takes."""
    lease = PortLease(cache_directory() / "ports")
    try:
        yield f"http://{LOOPBACK}:{lease.port}"
    finally:
        lease.close()


@pytest.fixture
def spark() -> SparkSession:
    """The one Spark session of all tests, in this process, with Spark's Kafka source."""
    # PySpark takes long to import, and most tests do without.
    from connectors.spark.session import shared_session
    from tests.support.spark.session import ready_session

    return ready_session(shared_session(), kafka=True)
