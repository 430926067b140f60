"""A worker whose password ends while it writes says so and ends within seconds, so that whoever
starts it again gives it the new one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from api.cli.program import EXIT_ERROR
from connect.clock import SYSTEM_CLOCK
from deploy.brokers import KafkaRuntime
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.security.ending_password import EndingPassword, ending_password
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, worker_group
from tests.support.workers.java_connect import worker_properties

BEFORE, AFTER = "the-password-before", "the-password-after"
PLUGINS = Path(__file__).parents[2] / "plugins"
STAGED = {"connector.class": "StagedConnector", "tasks": "2", "tasks.max": "2"}
ENDS_S = 30.0
"""The session of 3 s, the refusal, a graceful stop of 5 s, and time for a busy machine."""


@pytest.fixture(scope="module")
def served(kafka: KafkaRuntime, session_logs: Path) -> Iterator[EndingPassword]:
    with ending_password("ended", BEFORE, kafka, session_logs) as brokers:
        yield brokers


@pytest.fixture
def brokers(served: EndingPassword) -> EndingPassword:
    """They have the password of the start again."""
    served.change(BEFORE)
    return served


@contextmanager
def repeated(write: Callable[[int], object]) -> Iterator[None]:
    """Call again and again on a thread, with a number that grows."""
    over = threading.Event()

    def run() -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                write(number)
            except OSError:
                over.wait(0.1)  # The worker has ended.

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def login(brokers: EndingPassword, password: str) -> dict[str, str]:
    """Of the worker, and of the clients of its connectors."""
    own = brokers.login(password)
    prefixes = ("", "producer.", "consumer.", "admin.")
    return {f"{prefix}{key}": value for prefix in prefixes for key, value in own.items()}


def properties(brokers: EndingPassword, name: str, exactly_once: str) -> Mapping[str, str]:
    extra = {
        **login(brokers, BEFORE),
        "plugin.path": str(PLUGINS),
        "exactly.once.source.support": exactly_once,
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
    }
    return worker_properties(extra["bootstrap.servers"], name, extra)


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_a_worker_whose_password_ends_in_the_middle_of_a_write_ends_and_says_why(
    brokers: EndingPassword, exactly_once: str, tmp_path: Path, logs: Path
) -> None:
    given = properties(brokers, unique("ended"), exactly_once)
    with worker_group(1, given, tmp_path, logs) as group:
        group.create("c", STAGED)
        group.until_running("c", 2)
        (worker,) = group.workers

        def write(number: int) -> None:
            call(worker.url, "PUT", "/connectors/c/config", {**STAGED, "mark": str(number)})

        with repeated(write):
            brokers.change(AFTER)
            began = SYSTEM_CLOCK.monotonic()
            wait_until(lambda: not worker.running, ENDS_S, "the worker has ended")
            print(f"ended after {SYSTEM_CLOCK.monotonic() - began:.1f} s")
        assert worker.process.poll() == EXIT_ERROR
        *_, said = (logs / "worker-1.log").read_text().splitlines()
        assert re.match("connect-distributed: .*invalid credentials", said), said
        _starts_with_the_new_one(brokers, group)


def _starts_with_the_new_one(brokers: EndingPassword, group: Group) -> None:
    (worker,) = group.workers
    worker.configure(login(brokers, AFTER))
    worker.start().await_ready()
    group.until_running("c", 2)
