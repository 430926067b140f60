"""Runs a page of the documentation: writes its files, types its commands, compares their output.

The conventions of pages are in docs/contributing/index.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from connect.config.properties import parse_properties
from deploy.brokers import GuardedProcess
from tests.support.docs.pages import Block, blocks
from tests.support.rest import call
from tests.support.served import health_of
from tests.support.waiting import wait_until

__all__ = ["BACKGROUND", "SKIP", "PageRun", "output_pattern"]

BACKGROUND, SKIP = "background", "skip: "

_COMMAND_S, _OUTPUT_S, _START_S, _STOP_S = 120.0, 120.0, 90.0, 40.0
_METRICS, _REST = "127.0.0.1:9404", "127.0.0.1:8083"
# Single brokers, and no waiting for intervals; what a page sets itself stays.
_QUICK = {
    "replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "offset.flush.interval.ms": "500",
}


class _Done(NamedTuple):
    status: int
    output: str
    errors: str


class PageRun:
    """One page, in a directory of its own. `addresses`: what stands on pages, and what is there."""

    def __init__(
        self, page: Path, directory: Path, log: Path, addresses: Mapping[str, str]
    ) -> None:
        self._blocks = blocks(page)
        self._page = page.name
        self._directory = directory
        self._log = log
        self._addresses = addresses
        programs = Path(sys.executable).parent
        self._environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        self._running: list[GuardedProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running:
            process.close()

    def run(self) -> None:
        """All blocks, in their order. Raises AssertionError, with the line, for what is not so."""
        for number, block in enumerate(self._blocks):
            if block.stops:
                self._stop()
            if block.mark.startswith(SKIP):
                continue
            if block.title:
                self._write(block)
            elif block.language == "bash" and block.mark == BACKGROUND:
                self._start(block)
            elif block.language == "bash":
                self._type(block, self._expected(number))
        self._stop()

    def _expected(self, number: int) -> str | None:
        """What the page shows after a command."""
        after = self._blocks[number + 1 : number + 2]
        return after[0].text if after and after[0].language == "text" and after[0].follows else None

    def _real(self, text: str) -> str:
        for name, address in self._addresses.items():
            text = text.replace(name, address)
        return text

    def _write(self, block: Block) -> None:
        path = self._directory / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        text = self._real(block.text)
        if path.suffix == ".properties" and "clusters" in (props := parse_properties(text)):
            quick = {"metrics.listener": f"http://{self._addresses[_METRICS]}", **_QUICK}
            text += "".join(f"{key} = {quick[key]}\n" for key in quick.keys() - props.keys())
        with path.open("a") as file:
            file.write(text)

    def _start(self, block: Block) -> None:
        command = self._real(block.text).strip()
        process = GuardedProcess(
            ["bash", "-c", f"exec {command}"],
            self._log,
            environment=self._environment,
            directory=self._directory,
        )
        self._running.append(process)

        def ready() -> bool:
            assert process.running(), f"{self._where(block)} has ended; see {self._log}"
            try:
                if command.startswith("kafka-mirror-maker"):
                    return True  # It has no page of its own.
                if command.startswith("connect-mirror-archive"):
                    return "partitions done" in self._log.read_text()
                if command.startswith("connect-mirror-maker"):
                    health = health_of(f"http://{self._addresses[_METRICS]}")
                    return health["status"] == "healthy" and bool(health["connectors"])
                return call(f"http://{self._addresses[_REST]}", "GET", "/health").status == 200
            except OSError:
                return False

        wait_until(ready, _START_S, f"{self._where(block)} is healthy")

    def _stop(self) -> None:
        for process in self._running:
            assert process.stop(_STOP_S) == 0, f"{process.command} on {self._page}: {self._log}"
            process.close()
        self._running.clear()

    def _type(self, block: Block, expected: str | None) -> None:
        if expected is None:
            done = self._shell(block)
            assert done.status == 0, f"{self._where(block)}: {done}"
            return
        pattern = output_pattern(self._real(expected))
        last: list[_Done] = []

        def said() -> bool:
            last[:] = [self._shell(block)]
            return last[0].status == 0 and pattern.search(last[0].output) is not None

        try:
            wait_until(said, _OUTPUT_S, self._where(block))
        except Exception as error:
            raise AssertionError(f"{self._where(block)}: {last[0]}\nnot {expected}") from error

    def _shell(self, block: Block) -> _Done:
        done = subprocess.run(
            ["bash", "-e", "-c", self._real(block.text)],
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
        )
        return _Done(done.returncode, done.stdout, done.stderr)

    def _where(self, block: Block) -> str:
        return f"{self._page}:{block.line}: {block.text.splitlines()[0]}"


def output_pattern(expected: str) -> re.Pattern[str]:
    """Matches an output with these lines; `...` stands for anything within a line."""
    lines = [
        "[^\n]*?".join(re.escape(part) for part in line.split("..."))
        for line in expected.strip().splitlines()
    ]
    return re.compile("^" + "\n".join(lines) + "$", re.MULTILINE)
