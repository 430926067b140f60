"""Known secrets never reach the log of a program, whichever logger names them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent(
    """
    import logging
    from api.cli.logs import configure_logging
    from connect.config.providers import ConfigProviders
    from connect.runtime.loggers import Loggers

    configure_logging()
    login = 'a.PlainLoginModule required username="ali" password="open-sesame";'
    ConfigProviders({}).resolve({
        "source.cluster.sasl.jaas.config": login,
        "ssl.keystore.key": "-----BEGIN KEY-----",
        "mirror.topic": "not-secret-at-all",
    })
    Loggers().set("root", "TRACE")
    for name in ("py4j.clientserver", "kafka.net.sasl", "uvicorn.asgi"):
        logging.getLogger(name).debug("payload of %s", name)
    log = logging.getLogger("anything")
    log.debug("sent %r", b"\\0ali\\0open-sesame")
    log.log(5, "%s", "key: -----BEGIN KEY-----")
    log.info("topic not-secret-at-all")
    try:
        raise ValueError("open-sesame")
    except ValueError:
        log.exception("failed")
    """
)


@pytest.fixture(scope="module")
def logged() -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stderr


def test_lines_and_tracebacks_of_every_level_are_clean(logged: str) -> None:
    assert "open-sesame" not in logged
    assert "BEGIN KEY" not in logged
    assert "sent b'\\x00ali\\x00[hidden]'" in logged
    assert "ValueError: [hidden]" in logged


def test_other_words_stay(logged: str) -> None:
    assert "topic not-secret-at-all" in logged


def test_libraries_do_not_log_what_they_send(logged: str) -> None:
    assert "payload" not in logged
