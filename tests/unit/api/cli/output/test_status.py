"""What `connect-mirror status` shows of a mirror that answers: what the dashboard shows."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from rich.console import Console

from api.cli.connect_mirror.running import RunningMirror
from api.cli.connect_mirror.status import MirrorStatus, look
from api.cli.output.status import print_status, screen

FLOW = "a->b"
AT_MS = 1_700_000_000_000
CONNECTOR = {
    "flow": FLOW,
    "name": "MirrorSourceConnector",
    "state": "RUNNING",
    "healthy": True,
    "trace": None,
    "tasks": [{"id": 0, "state": "RUNNING", "trace": None}],
}
PARTITION = {
    "topic": "orders",
    "partition": 3,
    "records": 70,
    "seconds": 12.0,
    "time_to_loss_seconds": 7200.0,
    "error": None,
}
SUMMARY = {
    "name": FLOW,
    "records_per_second": 1234.5,
    "bytes_per_second": 98765.0,
    "latency_ms": 4.0,
    "losses": 1,
    "lost_records": 42,
    "history": None,
}
EVENT = {
    "at_ms": AT_MS,
    "kind": "retention",
    "action": "lost",
    "topic": "orders",
    "partition": 3,
    "text": "the source deleted offsets 5 to 46",
}
JOB = {
    "kind": "backfill",
    "state": "running",
    "parts": 8,
    "done": 3,
    "failed": 0,
    "left_seconds": 600.0,
    "text": "orders",
}
GROUPS = [
    {"group": "billing", "ready": True, "synced": True, "again": 0, "why": None},
    {"group": "audit", "ready": False, "synced": False, "again": None, "why": "no checkpoint yet"},
]
PAGES: Mapping[str, object] = {
    "/health": {"message": "all flows are healthy", "connectors": [CONNECTOR]},
    "/mirrors": {"flows": [SUMMARY]},
    "/mirrors/a-%3Eb/lag": {"partitions": [PARTITION], "incomplete": []},
    "/mirrors/a-%3Eb/events": {"events": [EVENT]},
    "/mirrors/a-%3Eb/jobs": {"jobs": [JOB]},
    "/mirrors/a-%3Eb/groups": {"problem": None, "groups": GROUPS},
}


@contextmanager
def served(pages: Mapping[str, object]) -> Iterator[str]:
    """The URL of a listener with these pages; others are errors, as of an older version."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = pages.get(self.path.partition("?")[0])
            missing = {"error_code": 404, "message": "There is no such page"}
            body = json.dumps(missing if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def seen(pages: Mapping[str, object]) -> MirrorStatus:
    with served(pages) as url:
        return look(RunningMirror(url))


@pytest.fixture
def status() -> MirrorStatus:
    return seen(PAGES)


def printed(status: MirrorStatus) -> list[list[str]]:
    out = io.StringIO()
    print_status(status, "tsv", out)
    return [line.split("\t") for line in out.getvalue().splitlines()]


def test_a_flow_is_shown_with_its_throughput_and_its_losses(status: MirrorStatus) -> None:
    (row,) = [row for row in printed(status) if row[0] == FLOW]
    assert row[-3:] == ["1,234 records/s", "98,765 B/s", "42"]


def test_a_paused_flow_is_called_that() -> None:
    tasks = [{"id": 0, "state": "PAUSED", "trace": None}]
    health = {"connectors": [{**CONNECTOR, "state": "PAUSED", "tasks": tasks}]}
    status = seen({**PAGES, "/health": health})
    (row,) = [row for row in printed(status) if row[0] == FLOW]
    assert row[1:3] == ["yes", "0 of 1 running, paused"]
    assert [each["paused"] for each in status.document()["flows"]] == [True]


def test_events_jobs_and_groups_are_shown(status: MirrorStatus) -> None:
    rows = printed(status)
    assert any(row[1:] == ["retention", "orders-3", EVENT["text"]] for row in rows)
    assert ["backfill", "running", "3 of 8", "0:10:00", "orders"] in rows
    groups = [row for row in rows if row[0] in ("billing", "audit")]
    assert groups == [
        ["audit", "not ready", "no", "unknown", "no checkpoint yet"],
        ["billing", "ready", "yes", "0", ""],
    ]


def test_the_live_view_shows_the_same(status: MirrorStatus) -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(screen(status, None))
    text = out.getvalue()
    for words in ("1,234", "retention", "orders-3", "backfill", "billing", "no checkpoint"):
        assert words in text


def test_programs_get_all_of_it(status: MirrorStatus) -> None:
    (flow,) = status.document()["flows"]
    assert flow["details"]["records_per_second"] == 1234.5
    assert [group["group"] for group in flow["details"]["groups"]] == ["billing", "audit"]


def test_a_page_that_does_not_answer_is_named_and_the_others_are_shown() -> None:
    found = seen({path: page for path, page in PAGES.items() if not path.endswith("groups")})
    rows = printed(found)
    assert any(row[0].startswith(f"{FLOW}: groups are not known: ") for row in rows)
    assert ["backfill", "running", "3 of 8", "0:10:00", "orders"] in rows


def test_what_kept_the_history_from_answering_is_told() -> None:
    closed = {"flows": [{**SUMMARY, "records_per_second": None, "history": "It is off"}]}
    rows = printed(seen({**PAGES, "/mirrors": closed}))
    assert [f"{FLOW}: rates, losses and events are not known: It is off"] in rows
