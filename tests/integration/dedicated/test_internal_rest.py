"""The internal REST of a running mirror, asked by somebody who is none of its processes."""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from connect.storage.config_records import SessionKey
from deploy.brokers import KafkaCluster
from deploy.brokers.ports import LOOPBACK
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.session_keys import next_key, signed

WAIT_S = 60.0
REST = {
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": f"http://{LOOPBACK}:0",
}
NO_LIST = b'{"x": "1"}'
NOT_A_LIST = (500, "The request body must be a JSON array of task configs")
"""What is said of it, with Java's status, by whoever parses it."""
UNSIGNED = (400, "Internal request missing required signature")
WRONGLY_SIGNED = (403, "Internal request contained invalid signature.")
TOO_LARGE = 9 * 1024 * 1024
PART = b"[" * 65_536


class Mirror:
    """Where its tasks are written, and its session key."""

    def __init__(self, flow: MirroredFlow, url: str) -> None:
        self.flow = flow
        self.url = url
        self.path = f"/{flow.a}/{flow.b}/connectors/MirrorSourceConnector/tasks"

    def told(self, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
        return call(self.url, "POST", self.path, body, headers).error

    def key(self) -> SessionKey:
        topic = f"mm2-configs.{self.flow.a}.internal"
        return next_key(self.flow.target_servers, topic, WAIT_S)


@pytest.fixture
def mirror(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> Iterator[Mirror]:
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    with running(flow.properties(REST), tmp_path, log):

        def url() -> str | None:
            found = re.search(r"listening on (http\S+)", log.read_text())
            return found[1].rstrip("/") if found else None

        listening = wait_until(url, WAIT_S, "the internal REST")
        assert listening is not None
        made = Mirror(flow, listening)

        def started() -> bool:
            return made.told(NO_LIST, signed(made.key(), NO_LIST)) == NOT_A_LIST

        wait_until(started, WAIT_S, "the flow's herder with its key")
        yield made


def test_a_body_is_parsed_only_with_a_right_signature(mirror: Mirror) -> None:
    right = signed(mirror.key(), NO_LIST)
    assert mirror.told(NO_LIST, signed(None)) == UNSIGNED
    assert mirror.told(b"[]", signed(None)) == UNSIGNED
    assert mirror.told(NO_LIST + b" ", right) == WRONGLY_SIGNED
    stranger = SessionKey(os.urandom(32), mirror.key().algorithm, 0)
    assert mirror.told(NO_LIST, signed(stranger, NO_LIST)) == WRONGLY_SIGNED
    assert mirror.told(NO_LIST, right) == NOT_A_LIST


def test_a_body_that_is_too_large_is_not_read(mirror: Mirror) -> None:
    """Whether its size was announced, or not."""
    headers = signed(mirror.key())
    parts = urlsplit(mirror.url)
    for announced in (True, False):
        connection = http.client.HTTPConnection(parts.netloc, timeout=WAIT_S)
        try:
            connection.putrequest("POST", mirror.path)
            for name, value in headers.items():
                connection.putheader(name, value)
            if announced:
                # Not a byte of it is sent.
                connection.putheader("Content-Length", str(TOO_LARGE))
                connection.endheaders()
            else:
                connection.putheader("Transfer-Encoding", "chunked")
                connection.endheaders()
                sent = 0
                while sent <= TOO_LARGE:
                    connection.send(b"%x\r\n%s\r\n" % (len(PART), PART))
                    sent += len(PART)
            answer = connection.getresponse()
            assert answer.status == 413, answer.read()
            assert b"The request body is larger than" in answer.read()
        finally:
            connection.close()
