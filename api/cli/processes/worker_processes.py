"""`--workers N`: several worker processes of one group on one host, run as one program."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence

from api.cli.processes.process_group import ProcessGroup, watch_parent
from api.cli.processes.stop_signals import HangupSignal, StopSignal
from api.cli.program import EXIT_ERROR, EXIT_OK, STOP_S
from connect.clock import Deadline
from connect.config.types import invalid_value

__all__ = [
    "WorkerProcesses",
    "ask_to_stop_with_parent",
    "on_free_port",
    "spread_listeners",
]

_CHECK_S = 1.0
# A process has STOP_S to stop after the request, and is then killed.
_KILL_AFTER_S = STOP_S + 5.0


class WorkerProcesses:
    """Runs `python -P -m <module> --worker-number <k> <arguments>` for k from 1 to `count`. Owned
    by the main thread.

    -P keeps the working directory off the module path, so that a package there with one of our
    names is not run by mistake. The installed command excludes it too.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], count: int, *, pass_hangup: bool = False
    ) -> None:
        """`pass_hangup`: whether the processes take SIGHUP, and get it when this one does."""
        self._pass_hangup = pass_hangup
        self._group = ProcessGroup(
            [
                [sys.executable, "-P", "-m", module, "--worker-number", str(number), *arguments]
                for number in range(1, count + 1)
            ]
        )

    def run(self) -> int:
        """Keep all processes running until a signal arrives. Returns the exit code."""
        stop = StopSignal()
        hangup = HangupSignal() if self._pass_hangup else None
        self._group.start()
        try:
            while not stop.wait(_CHECK_S):
                self._group.check()
                if hangup is not None and hangup.taken():
                    self._group.signal(signal.SIGHUP)
        finally:
            ended_well = self._group.stop(Deadline(_KILL_AFTER_S))
        return EXIT_OK if ended_well else EXIT_ERROR


def ask_to_stop_with_parent() -> None:
    """Stop this child process cleanly when its parent process has ended."""
    watch_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))


def spread_listeners(props: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of every process but the first: each listener on a free port, which is
    advertised once it is bound. Raises `ConfigError` for a listener without a port."""
    spread = {key: value for key, value in props.items() if key != "rest.advertised.port"}
    for key in ("listeners", "admin.listeners"):
        if key == "listeners" or props.get(key, "").strip():
            spread[key] = ",".join(on_free_port(one, key) for one in _listeners(props, key))
    return spread


def _listeners(props: Mapping[str, str], key: str) -> list[str]:
    text = props.get(key, "http://:8083" if key == "listeners" else "")
    return [one.strip() for one in text.split(",") if one.strip()]


def on_free_port(listener: str, key: str) -> str:
    """Return the same listener on any free port. Raises `ConfigError` for `key` if the listener has
    no port."""
    address, colon, port = listener.rpartition(":")
    if not colon or not port.lstrip("-").isdigit():
        raise invalid_value(key, listener, "it has no port; use http://host:port")
    return f"{address}:0"
