"""The shared session and the jobs on it: nobody waits, nothing piles up, everything is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from api.cli import spark_archive
from connect.errors import ConfigError
from connectors.spark.drivers.classic import ClassicDriver
from connectors.spark.drivers.jvm import SparkJvm
from connectors.spark.job_runner import PeriodicJob, PeriodicWork
from connectors.spark.session import SharedSession, SparkPhase, shared_session
from tests.support.spark.session import SPARK, START_S, ready_session, session_on
from tests.support.waiting import wait_until

WAIT_S = 90.0


@contextmanager
def job(
    work: Callable[[SparkSession], object],
    *,
    interval_s: float = 600.0,
    shared: SharedSession | None = None,
    on_fatal: Callable[[Exception], None] | None = None,
    long_run_s: float = 60.0,
    find_work: Callable[[], PeriodicWork | None] | None = None,
    in_process: Callable[[], object] = lambda: None,
    copying: bool = False,
    properties: Mapping[str, str] = SPARK,
) -> Iterator[PeriodicJob]:
    def run(session: SparkSession) -> bool:
        work(session)
        return False

    def run_in_process() -> bool:
        in_process()
        return False

    made = PeriodicJob(
        "Some job",
        find_work or (lambda: PeriodicWork(run, run_in_process)),
        interval_s=interval_s,
        properties=properties,
        copying=lambda _: copying,
        shared=shared,
        on_fatal=on_fatal,
        long_run_s=long_run_s,
    )
    made.start()
    try:
        yield made
    finally:
        assert made.stop(WAIT_S)


def test_a_job_runs_as_soon_as_there_is_a_session(spark: SparkSession) -> None:
    counts: list[int] = []
    with job(lambda session: counts.append(session.range(7).count())) as made:
        wait_until(lambda: made.status.runs, WAIT_S, "the first run")
    assert counts == [7]
    assert made.status.text == "idle"
    assert made.status.engine == "spark"


def test_a_job_without_work_needs_no_session() -> None:
    shared = SharedSession()
    with job(lambda _: None, shared=shared, find_work=lambda: None) as made:
        wait_until(lambda: made.status.runs, WAIT_S, "a run")
        assert str(shared.state) == "unused"
        assert made.status.text == "idle"
    shared.close()


def test_a_run_that_changed_something_is_followed_by_one_other(spark: SparkSession) -> None:
    runs: list[int] = []

    def work(_: SparkSession) -> bool:
        runs.append(1)
        return True

    found = PeriodicWork(work, lambda: pytest.fail("Spark is there"))
    with job(lambda _: None, find_work=lambda: found) as made:
        wait_until(lambda: made.status.runs == 2, WAIT_S, "the run that looks again")
        made.wake()
        wait_until(lambda: made.status.runs == 4, WAIT_S, "two more")


def test_the_session_ends_when_nobody_wants_it_and_comes_back_when_somebody_does(
    spark: SparkSession,
) -> None:
    shared = shared_session()
    props = {**SPARK, "mirror.spark.idle.timeout.ms": "1"}
    resting = shared.acquire("resting", props, wanted=False)
    keeping = shared.acquire("keeping", props)
    driver = shared._driver
    assert isinstance(driver, ClassicDriver)
    jvm = driver.jvm
    try:
        assert resting.want() is spark
        resting.rest()
        assert not shared._take_if_idle()
        keeping.rest()
        shared._loop.wake()
        wait_until(lambda: str(shared.state) == "idle", WAIT_S, "its end")
        wait_until(lambda: not jvm.alive, WAIT_S, "the end of its JVM")
        assert resting.want() is None
        again = wait_until(lambda: resting.session, 180.0, "another session")
        assert again is not None
        assert again.range(2).count() == 2
    finally:
        keeping.release()
        resting.release()


def test_who_needs_more_waits_until_nobody_uses_the_session(spark: SparkSession) -> None:
    """No query ends because another user needs Python data sources, Kafka or a priority."""
    shared = shared_session()
    copying = shared.acquire("copying", SPARK)
    assert copying.session is spark
    asking = shared.acquire("asking", SPARK, frames=True)
    late = shared.acquire("late", SPARK, wanted=False)
    try:
        assert asking.session is None
        assert str(asking.state).startswith("busy: others use it without what Python data sources")
        assert copying.asked_back
        assert copying.want() is spark
        assert late.want() is None
        shared._look()
        assert spark.range(3).count() == 3
        copying.give_back()
        found = wait_until(lambda: asking.session, START_S, "the session that has more")
        assert found is not spark
        assert not copying.asked_back
        assert copying.want() is late.want() is found
    finally:
        for lease in (copying, asking, late):
            lease.release()


def test_without_a_master_a_job_computes_in_the_process_and_says_why() -> None:
    shared = SharedSession()
    nowhere = {"spark.master": "spark://127.0.0.1:1"}
    computed: list[int] = []

    def on_spark(_: SparkSession) -> None:
        pytest.fail("there is no session")

    def in_process() -> None:
        computed.append(1)

    try:
        with job(on_spark, shared=shared, in_process=in_process, properties=nowhere) as made:
            wait_until(lambda: made.status.runs, WAIT_S, "the run")
            assert shared.session is None
            assert "Cannot reach the Spark master spark://127.0.0.1:1" in shared.state.reason
            failed = "is failed: Cannot reach the Spark master"
            assert f"waiting for Spark, which {failed}" in made.status.text
            assert f"process: Spark {failed}" in made.status.engine
    finally:
        shared.close()
    assert computed
    assert str(shared.state) == "stopped"


def test_no_java_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.spark.drivers.jvm.find_java", lambda **_: None)
    shared = SharedSession()
    shared.acquire("test", SPARK)
    try:
        wait_until(lambda: shared.state.phase is SparkPhase.FAILED, WAIT_S, "the failure")
        assert "set JAVA_HOME" in shared.state.reason
    finally:
        shared.close()


def test_a_connector_that_cannot_be_fetched_is_named() -> None:
    shared = SharedSession()
    shared.acquire("test", {**SPARK, "spark.jars.packages": "no.such:package:1"})
    try:
        wait_until(lambda: shared.state.phase is SparkPhase.FAILED, 180.0, "the failure")
        assert "unresolved dependency: no.such#package;1: not found" in shared.state.reason
    finally:
        shared.close()


def test_the_next_user_s_properties_count_where_nobody_uses_the_session_any_more() -> None:
    shared = SharedSession()
    first = shared.acquire("first", {"spark.master": "spark://127.0.0.1:1"})
    try:
        wait_until(lambda: "spark://127.0.0.1:1:" in shared.state.reason, WAIT_S, "the first's")
        with pytest.raises(ConfigError, match="second names the Spark master local"):
            shared.acquire("second", SPARK)
        first.release()
        shared.acquire("third", {"spark.master": "spark://127.0.0.1:3"})
        wait_until(lambda: "spark://127.0.0.1:3:" in shared.state.reason, WAIT_S, "the third's")
    finally:
        shared.close()


def test_a_run_that_fails_is_tried_again_and_told(spark: SparkSession) -> None:
    runs: list[int] = []

    def work(session: SparkSession) -> None:
        runs.append(1)
        if len(runs) == 1:
            session.sql("select raise_error('no luck')").collect()

    with job(work) as made:
        wait_until(lambda: made.status.failures, WAIT_S, "the failure")
        wait_until(lambda: made.status.runs == 2, WAIT_S, "the second run, before its interval")
        assert made.status.text == "idle"


def test_a_wrong_config_ends_the_job(spark: SparkSession) -> None:
    fatal: list[Exception] = []

    def work(_: SparkSession) -> None:
        raise ConfigError("wrong", key="k")

    with job(work, on_fatal=fatal.append) as made:
        wait_until(lambda: fatal, WAIT_S, "the end")
        assert made.status.text == "failed: wrong"


def test_ticks_that_pass_during_a_run_are_skipped_and_a_long_run_is_told(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()
    running = []

    def work(_: SparkSession) -> None:
        running.append(threading.active_count())
        go_on.wait(WAIT_S)

    with job(work, interval_s=0.2, long_run_s=0.1) as made:
        wait_until(lambda: made.read()["running-ms"] > 700, WAIT_S, "four ticks")  # type: ignore[operator]
        assert made.status.runs == 0
        go_on.set()
        wait_until(lambda: made.status.skipped >= 3, WAIT_S, "the skipped runs")
    assert "Some job has been running for 0 s" in caplog.text


def test_stop_cancels_what_spark_does(spark: SparkSession) -> None:
    started = threading.Event()

    def work(session: SparkSession) -> None:
        started.set()
        # Some 10^15 rows: hours.
        session.range(10**15).selectExpr("sum(id * id % 7)").collect()

    with job(work) as made:
        assert started.wait(WAIT_S)
        busy = spark.sparkContext.statusTracker()
        wait_until(lambda: busy.getActiveStageIds(), WAIT_S, "Spark is at it")
        assert made.stop(WAIT_S)
        wait_until(lambda: not busy.getActiveStageIds(), WAIT_S, "Spark is not at it any more")


def test_a_lost_driver_is_replaced(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    shared = shared_session()
    # Without a user that is no background job, the next JVM would have the lowest CPU priority.
    shared.acquire("a user in the foreground", SPARK, wanted=False)
    counts: list[int] = []
    with job(lambda session: counts.append(session.range(3).count()), interval_s=0.5) as made:
        wait_until(lambda: made.status.runs, WAIT_S, "a run")
        driver = shared._driver
        assert isinstance(driver, ClassicDriver)
        jvm = driver.jvm
        assert isinstance(jvm, SparkJvm)
        assert jvm._process is not None
        jvm._process.kill()
        wait_until(lambda: made.status.failures or shared.session is None, WAIT_S, "the loss")
        seen = len(counts)
        wait_until(lambda: len(counts) > seen, 180.0, "a run on the new session")
    assert ready_session(shared).range(2).count() == 2
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err


@pytest.mark.slow
def test_archived_classes_are_mapped_and_others_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `-Xshare:on` a JVM that cannot map its archive does not start."""
    monkeypatch.setenv("KAFKA_CONNECT_MIRROR_CACHE", str(tmp_path / "a cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert spark_archive.main(["--driver-classes"]) == 0
    (archive,) = (tmp_path / "a cache" / "spark").iterdir()
    assert str(archive) in capsys.readouterr().out
    must = {"spark.master": "local[1]", "spark.driver.extraJavaOptions": "-Xshare:on"}
    with session_on(must) as session:
        assert session.range(3).count() == 3
    archive.write_bytes(b"no archive")
    with session_on({"spark.master": "local[1]"}) as session:
        assert session.range(3).count() == 3
