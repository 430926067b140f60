"""`connect-distributed` on a machine whose clock is wrong.

python -m tests.support.workers.skewed_worker <seconds> worker.properties
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from api.cli.distributed import run
from api.cli.processes.exit_process import leave
from api.cli.program import run_program
from api.cli.worker_command import WORKER_CODES
from connect.clock import SystemClock

__all__ = ["main"]


class SkewedClock(SystemClock):
    """The time of day is wrong; durations are right."""

    def __init__(self, skew_s: float) -> None:
        self._skew_ms = round(skew_s * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self._skew_ms


def main(arguments: Sequence[str]) -> int:
    skew_s, config_file = arguments
    clock = SkewedClock(float(skew_s))
    return run_program(
        "skewed-worker",
        argparse.Namespace,
        lambda _: run(config_file, clock=clock),
        WORKER_CODES,
        lambda _: logging.INFO,
    )


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
