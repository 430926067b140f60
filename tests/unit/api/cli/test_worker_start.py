"""Workers whose cluster does not answer: the cause in the log, in /health and by
--check."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from api.cli import distributed, standalone
from tests.support.properties_files import properties_text
from tests.support.waiting import wait_until

REFUSED = "127.0.0.1:1"
TIMEOUT_S = 60.0
GROUP = {
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def file(directory: Path, **more: str) -> str:
    converter = "org.apache.kafka.connect.json.JsonConverter"
    props = {
        "bootstrap.servers": REFUSED,
        "listeners": "http://127.0.0.1:0",
        "key.converter": converter,
        "value.converter": converter,
        "offset.storage.file.filename": str(directory / "offsets"),
        **more,
    }
    path = directory / "worker.properties"
    path.write_text(properties_text(props))
    return str(path)


def health(port: int) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/health/ready")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_check_names_the_address_and_the_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert distributed.main(["--check", file(tmp_path, **GROUP)]) == 1
    assert standalone.main(["--check", file(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    errors = [line for line in lines if line.startswith("error: worker: ")]
    assert len(errors) == 2
    assert all(REFUSED in line and "refused" in line.lower() for line in errors)
    assert lines[-1] == "Errors to fix before the start: 1. Nothing was changed."


def test_programs_get_the_check_as_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert distributed.main(["--check", "-o", "json", file(tmp_path, **GROUP)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["can_run"], found["differs"], found["internal_topics"]) == (False, False, [])
    (cluster,), (finding,) = found["clusters"], found["findings"]
    assert (cluster["bootstrap"], cluster["cluster_id"]) == (REFUSED, None)
    assert (finding["level"], finding["text"]) == ("error", cluster["error"])


@pytest.mark.parametrize("main", [distributed.main, standalone.main])
def test_a_format_needs_a_check(
    main: Callable[[list[str]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-o", "json", file(tmp_path)]) == 2
    assert "-o needs --check" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "more", "status", "word"),
    [("distributed", GROUP, 503, "starting"), ("standalone", {}, 200, "ready")],
)
def test_the_log_and_health_of_a_worker_name_the_cause(
    tmp_path: Path, program: str, more: dict[str, str], status: int, word: str
) -> None:
    """A standalone worker needs the cluster for records only, so it starts without."""
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", f"api.cli.{program}", file(tmp_path, **more)],
            stderr=output,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        wait_until(lambda: "refused" in log.read_text().lower(), TIMEOUT_S, "the cause in the log")
        wait_until(lambda: "listening on" in log.read_text(), TIMEOUT_S, "the listener")
        line = next(each for each in log.read_text().splitlines() if "listening on" in each)
        address = urlsplit(next(word for word in line.split() if word.startswith("http://")))
        assert address.port is not None
        port = address.port
        wait_until(lambda: health(port)[0] == status, TIMEOUT_S, f"status {status}")
        body = health(port)[1]
        assert word in body
        assert REFUSED in body
        assert "refused" in body.lower()
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()
