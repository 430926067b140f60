"""`python -m deploy.demo`: two real Kafka clusters, a mirror between them, and a live view.

    python -m deploy.demo            connect-mirror-maker
    python -m deploy.demo cluster    a group of connect-distributed whose leader is killed
    python -m deploy.demo spark      a backfill, the mirror on Spark, and audits

The first demo runs until Ctrl-C or SIGTERM, or for DEMO_SECONDS (environment) from the moment both
clusters are up, but not before everything was in sync once. The others end after their last step,
but not before DEMO_SECONDS. DEMO_BACKLOG (environment) is the share of the usual backlog that
is produced, a number up to 1. Exit status 0 if all went well; otherwise 1, after one sentence. All
processes end with the demo. A second Ctrl-C ends it at once.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from api.cli.processes.exit_process import leave
from connect.errors import ConfigError, ConnectError
from deploy.demo.stopping import Stop, StopRequested, own_foreground

if TYPE_CHECKING:
    from deploy.demo.view import View

__all__ = ["SECONDS_VARIABLE", "demo_seconds", "main"]

SECONDS_VARIABLE = "DEMO_SECONDS"


def demo_seconds(text: str | None) -> float | None:
    """Parse how long the demo runs; None: until it is stopped. Raises `ConfigError`."""
    if text is None or not text.strip():
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ConfigError(
            f"Invalid value {text} for {SECONDS_VARIABLE}: use a number of seconds above 0, or "
            "unset it to run until Ctrl-C",
            key=SECONDS_VARIABLE,
            value=text,
        )
    return seconds


class Told(Protocol):
    """The result of a demo, printed at its end."""

    @property
    def problem(self) -> str | None: ...
    def lines(self) -> Iterator[str]: ...


Story = Callable[["View", Stop, float | None], Told]


def main(arguments: Sequence[str]) -> int:
    """Run a demo and return the exit status."""
    stop = Stop()
    stop.install()
    try:
        seconds = demo_seconds(os.environ.get(SECONDS_VARIABLE))
        with stop.interrupting():
            # These imports take most of a second, in which Ctrl-C must work already.
            from deploy.demo.group_session import run_group_demo
            from deploy.demo.session import run_demo
            from deploy.demo.spark_session import run_spark_demo
            from deploy.demo.view import make_view
        with own_foreground(), make_view(sys.stdout) as view:
            stories: dict[str, Story] = {"cluster": run_group_demo, "spark": run_spark_demo}
            run = stories.get(" ".join(arguments), run_demo)
            summary = run(view, stop, seconds)
    except StopRequested:
        print("Stopped.")
        return 0
    except ConnectError as error:
        print(error, file=sys.stderr)
        return 1
    print("\nSummary")
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in summary.lines():
        print(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    "))
    if summary.problem is not None:
        print(summary.problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
