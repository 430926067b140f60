"""librdkafka's log lines in Python's log, and clients that refuse wrong settings."""

from __future__ import annotations

import gc
import logging
import threading
from pathlib import Path

import pytest

from connect.clients.librdkafka.factory import LOGGER_NAME, LibrdkafkaLog, consumer, producer
from connect.errors import ConfigError
from tests.support.fake_clock import FakeClock
from tests.support.security.certificates import Authority
from tests.support.waiting import wait_until

LINE = ("%s [%s] %s", "FAIL", "c#producer-1", "Connection refused")


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.levelname for record in caplog.records]


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER_NAME)


def test_an_error_of_librdkafka_is_a_warning_with_the_clients_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    LibrdkafkaLog("A->100%{B}|offsets").log(logging.ERROR, *LINE)
    assert levels(caplog) == ["WARNING"]
    # Without the number of the producer: messages of one after another are equal.
    assert caplog.messages == ["[A->100%{B}|offsets] FAIL [c] Connection refused"]


def test_the_same_kind_of_line_is_shown_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    log = LibrdkafkaLog("c", clock)
    log.log(logging.ERROR, *LINE)
    clock.advance(29)
    log.log(logging.ERROR, *LINE)
    log.log(logging.ERROR, "%s [%s] %s", "REQTMOUT", "c", "timed out")
    clock.advance(1)
    log.log(logging.ERROR, *LINE)
    assert levels(caplog) == ["WARNING", "DEBUG", "WARNING", "WARNING"]


def test_closing_is_quiet_and_so_is_information(caplog: pytest.LogCaptureFixture) -> None:
    log = LibrdkafkaLog("c", FakeClock())
    log.log(logging.INFO, *LINE)
    log.closing = True
    log.log(logging.ERROR, *LINE)
    assert levels(caplog) == ["DEBUG", "DEBUG"]


def test_settings_that_librdkafka_refuses_are_config_errors() -> None:
    with pytest.raises(ConfigError, match="producer"):
        producer({"bootstrap.servers": "127.0.0.1:1"}, overrides={"no.such.key": "1"})
    with pytest.raises(ConfigError, match="consumer"):
        consumer({"bootstrap.servers": "127.0.0.1:1"}, overrides={"fetch.wait.max.ms": "soon"})


def test_the_proxy_of_a_consumer_ends_when_it_closes_though_its_callbacks_refer_to_it(
    tmp_path: Path,
) -> None:
    """Sinks' consumers call the object that holds them, so only a collection would free them."""
    store = tmp_path / "ca.pem"
    store.write_text(Authority().pem)
    properties = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(store),
        "group.id": "sinks",
        "client.id": "in-a-cycle",
    }

    def has_proxy() -> bool:
        return "sasl-proxy-in-a-cycle" in {one.name for one in threading.enumerate()}

    class Owner:
        def __init__(self) -> None:
            self.consumer = consumer(properties, overrides={"on_commit": self.committed})

        def committed(self, _error: object, _partitions: object) -> None:
            pass

    gc.disable()
    try:
        owner = Owner()
        assert has_proxy()
        owner.consumer.close()
        del owner
        wait_until(lambda: not has_proxy(), 10.0, "the proxy's end")
    finally:
        gc.enable()
