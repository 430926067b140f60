"""A record that a stage cannot take is tried again, skipped or fatal, as `errors.*` say.

The counts are those of Kafka Connect 4.3.1, which counts the last of several tries twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import pytest

from connect.data.record import SourceRecord
from connect.errors import BrokerUnavailable, ConfigError, DataError, TaskFailed
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import (
    ErrorHandling,
    ErrorReport,
    RecordErrors,
    RecordSkipped,
    RetriesInterrupted,
    Stage,
    retry_wait_s,
    warn_of_error_handling,
)
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.plugins.transform_chain import make_chain
from tests.support.fake_clock import FakeClock

CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
ALL = {"errors.tolerance": "all"}
BAD = DataError("not JSON")
AWAY = BrokerUnavailable("the registry is away")


def retry(timeout_ms: str) -> dict[str, str]:
    return {"errors.retry.timeout": timeout_ms}


class Bench:
    """Error handling whose waits pass at once; `operation` fails with these errors, then works."""

    def __init__(
        self, config: Mapping[str, str] | None = None, *, stopped_after: int | None = None
    ) -> None:
        self.clock = FakeClock()
        self.waits: list[float] = []
        self.reports: list[ErrorReport[str]] = []
        self._stopped_after = stopped_after
        self.errors: RecordErrors[str] = RecordErrors(
            ErrorHandling.from_config(config or {}),
            ErrorMetrics(self.clock),
            lambda original: f"record {original}",
            clock=self.clock,
            spread=lambda low, high: high,
            wait=self._wait,
        )
        self.errors.report_to([self])

    def report(self, report: ErrorReport[str]) -> None:
        self.reports.append(report)

    def run(self, *failures: Exception) -> str:
        return self.errors.run("r1", Stage.VALUE_CONVERTER, CONVERTER, failing(*failures), "v")

    def counts(self) -> dict[str, float]:
        """Those that are not 0, without the time."""
        values = dict(self.errors.metrics.read())
        values.pop("last-error-timestamp")
        return {name: value for name, value in values.items() if value}

    def _wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.clock.advance(seconds)
        return len(self.waits) == self._stopped_after


def failing(*failures: Exception) -> Callable[[str], str]:
    left = list(failures)

    def operation(value: str) -> str:
        if left:
            raise left.pop(0)
        return value.upper()

    return operation


def test_what_works_is_returned_and_nobody_hears_of_it() -> None:
    bench = Bench()
    assert bench.run() == "V"
    assert (bench.reports, bench.counts()) == ([], {})
    assert bench.errors.metrics.read()["last-error-timestamp"] == 0


def test_without_tolerance_the_first_failure_fails_the_task_and_names_it_all() -> None:
    bench = Bench()
    words = f"Tolerance exceeded .* VALUE_CONVERTER with class {CONVERTER} .* record r1: not JSON"
    with pytest.raises(TaskFailed, match=words) as raised:
        bench.run(BAD)
    assert raised.value.__cause__ is BAD
    # It is reported all the same: a dead letter queue has the record that failed the task.
    assert bench.reports == [ErrorReport("r1", Stage.VALUE_CONVERTER, CONVERTER, BAD)]
    assert bench.counts() == {"total-record-failures": 1, "total-record-errors": 1}


def test_with_tolerance_the_record_is_reported_and_skipped() -> None:
    bench = Bench(ALL)
    with pytest.raises(RecordSkipped):
        bench.run(BAD)
    assert [report.error for report in bench.reports] == [BAD]
    assert bench.counts() == {
        "total-record-failures": 1,
        "total-record-errors": 1,
        "total-records-skipped": 1,
    }
    assert bench.errors.metrics.read()["last-error-timestamp"] == bench.clock.now_ms()


def test_any_exception_of_a_plugin_is_tolerated() -> None:
    with pytest.raises(RecordSkipped):
        Bench(ALL).run(ZeroDivisionError("of a plugin"))


def test_only_retriable_errors_are_tried_again_until_it_works() -> None:
    bench = Bench(retry("10000"))
    assert bench.run(AWAY, AWAY) == "V"
    assert bench.waits == [0.3, 0.6]
    assert bench.counts() == {"total-record-failures": 2, "total-retries": 2}
    bench = Bench(retry("10000"))
    with pytest.raises(TaskFailed):
        bench.run(AWAY, BAD)
    assert bench.waits == [0.3]


def test_tries_end_with_the_timeout_and_then_tolerance_decides() -> None:
    bench = Bench(retry("1000"))
    with pytest.raises(TaskFailed, match="registry is away"):
        bench.run(*[AWAY] * 9)
    # The last wait is cut so that the last try is at the deadline.
    assert bench.waits == pytest.approx([0.3, 0.6, 0.1])
    assert bench.counts() == {
        "total-record-failures": 5,
        "total-retries": 3,
        "total-record-errors": 1,
    }
    with pytest.raises(RecordSkipped):
        Bench({**retry("1000"), **ALL}).run(*[AWAY] * 9)


def test_a_timeout_of_minus_one_has_no_end() -> None:
    bench = Bench(retry("-1"))
    assert bench.run(*[AWAY] * 30) == "V"
    assert bench.clock.monotonic() > 1000


def test_a_stop_ends_the_tries_and_decides_nothing() -> None:
    bench = Bench({**retry("-1"), **ALL}, stopped_after=2)
    with pytest.raises(RetriesInterrupted):
        bench.run(*[AWAY] * 9)
    assert bench.reports == []
    assert "total-records-skipped" not in bench.counts()


@pytest.mark.parametrize(
    ("attempt", "most_s", "remaining_s", "wait_s"),
    [
        (1, 60, 100, 0.3),
        (2, 60, 100, 0.6),
        (8, 60, 100, 38.4),
        (9, 60, 100, 30),
        (1, 0, 100, 0),
        (3, 60, 0.5, 0.5),
        (10**6, 60, 100, 30),
    ],
)
def test_waits_double_then_are_any_up_to_the_longest(
    attempt: int, most_s: float, remaining_s: float, wait_s: float
) -> None:
    spread = lambda low, high: (low + high) / 2  # noqa: E731
    assert retry_wait_s(attempt, most_s, remaining_s, spread) == pytest.approx(wait_s)


def test_what_fails_elsewhere_is_reported_and_tolerated_or_not() -> None:
    report = ErrorReport("r1", Stage.TASK_PUT, "org.apache.kafka.connect.sink.SinkTask", BAD)
    bench = Bench(ALL)
    assert bench.errors.failed(report).result(0) is None
    assert (bench.reports, bench.counts()) == ([report], {"total-record-failures": 1})
    bench = Bench()
    with pytest.raises(TaskFailed, match="TASK_PUT"):
        bench.errors.failed(report)
    assert bench.reports == [report]
    assert bench.counts() == {"total-record-failures": 1, "total-record-errors": 1}


def transformed(bench: Bench, kind: str, **config: str) -> SourceRecord | None:
    own = {f"transforms.t.{key}": value for key, value in config.items()}
    chain = make_chain(
        PluginRegistry(discover=False), {"transforms": "t", "transforms.t.type": kind, **own}
    )
    return bench.errors.transform("r1", chain, SourceRecord({}, {}, "t", None, None, "text"))


def test_a_transformation_is_a_stage_under_its_java_name() -> None:
    kind = "org.apache.kafka.connect.transforms.MaskField$Value"
    bench = Bench(ALL)
    with pytest.raises(RecordSkipped):
        transformed(bench, kind, fields="f")
    (report,) = bench.reports
    assert (report.stage, report.executing) == (Stage.TRANSFORMATION, kind)
    with pytest.raises(TaskFailed, match=r"^transforms\.t: .*MaskField\$Value .*Only Map objects"):
        transformed(Bench(), kind, fields="f")
    assert transformed(Bench(), "Filter") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("errors.tolerance", "some"),
        ("errors.retry.timeout", "soon"),
        ("errors.log.enable", "perhaps"),
    ],
)
def test_wrong_values_are_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        ErrorHandling.from_config({key: value})


def test_tasks_that_move_bytes_say_what_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_error_handling("m", {"errors.tolerance": " none", "errors.retry.timeout": "0"})
        assert caplog.messages == []
        warn_of_error_handling("m", {"errors.tolerance": "all"})
    assert "errors.tolerance has no effect on connector m" in caplog.text
