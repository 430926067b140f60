"""A mirror that an operator watches while something breaks: how soon each place that tells of
trouble names it.

The places are those that the docs send an operator to: `/health`, the dashboard (the sentence of
its flow), the alerts that a Prometheus with `deploy/prometheus/alerts.yml` fires, and
`connect-mirror why`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from confluent_kafka import Producer

from connect.errors import DeadlineExceeded
from tests.support.deployment.prometheus import Prometheus
from tests.support.flows.mirrored import MirroredFlow
from tests.support.served import page
from tests.support.waiting import wait_until

__all__ = ["ROWS", "Row", "Trial", "table", "writing"]

NAMED_WITHIN_S = 60.0
_READY_S = 90.0
_WHY = [sys.executable, "-m", "api.cli.connect_mirror.main", "why"]
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. Seconds from the fault until a place named it, or the alert fired; None
    where the place has nothing to say about such a fault."""

    fault: str
    health: float | None
    dashboard: float | None
    alert: float | None
    alert_name: str
    why: float | None


ROWS: list[Row] = []


def table() -> str:
    """The rows of this run in Markdown."""

    def seconds(value: float | None) -> str:
        return "" if value is None else f"{value:.0f} s"

    head = "| broken | `/health` | dashboard | alert | `why` |\n|---|---|---|---|---|"
    lines = [
        f"| {row.fault} | {seconds(row.health)} | {seconds(row.dashboard)} | "
        f"{row.alert_name and f'`{row.alert_name}`, '}{seconds(row.alert)} | {seconds(row.why)} |"
        for row in ROWS
    ]
    return "\n".join([head, *lines])


@contextmanager
def writing(servers: str, topic: str, *, size: int = 100, ahead_s: float = 0.0) -> Iterator[None]:
    """Records come into partition 0 of a topic meanwhile, about 50 in a second; `ahead_s`: by how
    much their producer's clock is ahead."""
    stop = threading.Event()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})

    def write() -> None:
        while not stop.wait(_PAUSE_S):
            with suppress(BufferError):
                producer.produce(
                    topic,
                    value=b"x" * size,
                    partition=0,
                    timestamp=round((time.time() + ahead_s) * 1000),
                )
            producer.poll(0)

    thread = threading.Thread(target=write, name="trial-writer")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_READY_S)
        producer.purge()
        producer.poll(0)


@dataclass(slots=True)
class Trial:
    """A running flow, seen from outside. For one thread."""

    flow: MirroredFlow
    listener: str
    file: Path
    topic: str
    prometheus: Prometheus

    def ready(self) -> None:
        """Wait until the flow is well, and nothing alerts."""
        wait_until(lambda: '"healthy"' in self._health()[:40], _READY_S, "the flow is healthy")
        wait_until(self.prometheus.scrapes, _READY_S, "Prometheus scrapes the mirror")
        wait_until(lambda: not self.prometheus.firing(), _READY_S, "no alert")

    def named(
        self,
        fault: str,
        words: str,
        *,
        alert: str = "",
        health: str | None = None,
        why: str | None = None,
        why_code: int = 3,
    ) -> Row:
        """Wait until each place has `words` (a regular expression); `health` and `why` where these
        need other words. Adds a row to the table.

        Raises `DeadlineExceeded` with the last answers if a place has not named it in a minute.
        """
        began = time.monotonic()
        asks: dict[str, tuple[Callable[[], str], str]] = {
            "health": (self._health, health or words),
            "dashboard": (self._dashboard, words),
            "why": (lambda: self._why(why_code), why or words),
        }
        if alert:
            asks["alert"] = (lambda: " ".join(self.prometheus.firing()), rf"\b{alert}\b")
        found: dict[str, float] = {}
        last: dict[str, str] = {}

        def all_named() -> bool:
            for place, (ask, wanted) in asks.items():
                if place not in found:
                    last[place] = ask()
                    if re.search(wanted, last[place], re.DOTALL):
                        found[place] = time.monotonic() - began
            return len(found) == len(asks)

        try:
            wait_until(all_named, NAMED_WITHIN_S, fault)
        except DeadlineExceeded as error:
            silent = {place: text for place, text in last.items() if place not in found}
            raise DeadlineExceeded(f"{fault}: not named, found {found}; {silent}") from error
        row = Row(
            fault,
            found.get("health"),
            found.get("dashboard"),
            found.get("alert"),
            alert,
            found.get("why"),
        )
        ROWS.append(row)
        return row

    def well_again(self) -> None:
        """Wait until nothing is shown as broken any more."""
        wait_until(lambda: '"healthy"' in self._health()[:40], _READY_S, "healthy again")

    def _health(self) -> str:
        return self._page("/health")

    def _dashboard(self) -> str:
        text = self._page("/mirrors")
        if not text.startswith("{"):
            return text
        (flow,) = json.loads(text)["flows"]
        return f"{flow['health']}, {flow['lag_records']} records behind: {flow['why']}"

    def _page(self, path: str) -> str:
        try:
            return page(self.listener, path)
        except (URLError, OSError) as error:
            return f"no answer: {error}"

    def _why(self, code: int) -> str:
        ended = subprocess.run(
            [*_WHY, "--config", str(self.file), "--topic", self.topic],
            capture_output=True,
            text=True,
            timeout=NAMED_WITHIN_S,
            check=False,
        )
        text = ended.stdout + ended.stderr
        assert "Traceback" not in text, text
        return text if ended.returncode == code else f"exit code {ended.returncode}"
