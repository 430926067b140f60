"""What is told of a Spark job that failed."""

from __future__ import annotations

import pytest

from connectors.spark.errors import SparkJobFailed, first_line, job_errors, reason_in

STAGE = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed "
    "4 times, most recent failure: Lost task 0.3 in stage 2.0 (TID 3) (host executor 1): "
)


class JavaError:
    """What the gateway hands over of an exception."""

    def __init__(self, text: str, cause: JavaError | None = None) -> None:
        self._text, self._cause = text, cause

    def getCause(self) -> JavaError | None:
        return self._cause

    def getMessage(self) -> str:
        return self._text.partition(": ")[2]

    def toString(self) -> str:
        return self._text


class GatewayError(Exception):
    def __init__(self, java: JavaError) -> None:
        super().__init__("An error occurred while calling o123.getResult")
        self.java_exception = java


def test_a_reason_is_its_first_line() -> None:
    assert reason_in("\n  no such host\nat somewhere\n", "Error") == "no such host"


def test_an_error_without_words_has_its_types_name() -> None:
    assert first_line(TimeoutError()) == "TimeoutError"


def test_of_python_code_on_an_executor_the_reason_is_what_it_raised() -> None:
    text = (
        STAGE + "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n    process()\n'
        "ValueError: partition 3 has no leader\n\nDriver stacktrace:\n"
    )
    assert reason_in(text, "Error") == (
        STAGE + "org.apache.spark.api.python.PythonException: ValueError: partition 3 has no leader"
    )


def test_a_wait_that_failed_is_told_by_its_cause() -> None:
    failed = JavaError(STAGE + "Python worker exited unexpectedly (crashed)\n\tat Worker.scala")
    waited = JavaError("org.apache.spark.SparkException: Exception thrown in awaitResult: ", failed)
    assert first_line(GatewayError(waited)) == STAGE + "Python worker exited unexpectedly (crashed)"


def test_what_a_failed_request_to_a_spark_connect_server_says_is_its_reason() -> None:
    text = (
        "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
        '\tdetails = "failed to connect to all addresses; last error: refused"\n'
        '\tdebug_error_string = "UNKNOWN: at 12:00"\n>'
    )
    assert reason_in(text, "RpcError") == (
        "StatusCode.UNAVAILABLE: failed to connect to all addresses; last error: refused"
    )


def test_a_closed_session_of_spark_connect_fails_a_job() -> None:
    reason = "The copy failed: its session of Spark Connect has ended"
    with pytest.raises(SparkJobFailed, match=reason), job_errors("The copy"):
        raise ValueError("Cannot invoke RPC on closed channel!")
    with pytest.raises(ValueError, match="of ours"), job_errors("The copy"):
        raise ValueError("a mistake of ours")
