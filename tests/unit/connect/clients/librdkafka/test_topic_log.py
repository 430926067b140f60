"""A topic's log without its brokers. The rest of it: tests/integration/test_topic_log."""

from __future__ import annotations

import threading

import pytest

from connect.clients.librdkafka.topic_log import TopicLog
from connect.clock import Deadline


def test_a_reading_thread_that_hangs_does_not_use_up_the_time_to_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(TopicLog, "_read", lambda _: hanging.wait(2_000.0))
    log = TopicLog("configs", {}, lambda _: None)
    log._thread.start()
    log.stop(Deadline(1_000.0))  # longer than a test may take
    assert "log-configs did not stop in time" in caplog.text
    hanging.set()
    log._thread.join(10.0)
