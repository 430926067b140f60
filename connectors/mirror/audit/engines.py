"""Runs audits in local processes. `connectors.mirror.spark.audit` implements the same interface on
Spark."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from connectors.mirror.audit.auditor import AuditSetup, RangeOutcome, audit_ranges
from connectors.mirror.audit.plan import DEFAULT_RANGE_BYTES, AuditRange

__all__ = ["AuditEngine", "local_engine", "process_pool", "shares"]

AuditEngine = Callable[[AuditSetup, Sequence[AuditRange]], Iterable[RangeOutcome]]
"""An engine: audits all ranges and yields outcomes in any order."""

_PER_TASK = 64
"""Maximum number of ranges per task; they share the task's two connections."""

_RANGE_COST = 16 * 1024
"""The fixed cost of a range, in bytes that could be read in the same time: listing offsets and
fetching take round trips."""


def shares(ranges: Sequence[AuditRange], tasks: int) -> list[list[AuditRange]]:
    """Divide the ranges among tasks: each large range gets its own task, small ones share tasks.

    There are at least `tasks` shares if there are enough ranges. Shares stay small so that
    executors that join later get work.
    """
    if not ranges:
        return []
    ordered = sorted(ranges, key=_weight, reverse=True)
    total = sum(map(_weight, ordered))
    most = max(1, min(total // max(1, 4 * tasks), DEFAULT_RANGE_BYTES))
    made: list[list[AuditRange]] = [[]]
    size = 0
    for each in ordered:
        weight = _weight(each)
        if made[-1] and (size + weight > most or len(made[-1]) >= _PER_TASK):
            made.append([])
            size = 0
        made[-1].append(each)
        size += weight
    return made


def _weight(wanted: AuditRange) -> int:
    """The range's bytes plus its fixed cost."""
    return wanted.bytes + _RANGE_COST


def local_engine(processes: int) -> AuditEngine:
    """Return an engine that uses this many local processes; with 1, only this process."""

    def run(setup: AuditSetup, ranges: Sequence[AuditRange]) -> Iterator[RangeOutcome]:
        if processes == 1 or len(ranges) < 2:
            yield from audit_ranges(setup, ranges)
            return
        with process_pool(processes) as pool:
            running: set[Future[list[RangeOutcome]]] = {
                pool.submit(_audit, setup, share) for share in shares(ranges, processes)
            }
            try:
                while running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield from future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    return run


def process_pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of new Python processes. They import nothing from the working directory."""
    # multiprocessing cannot pass options to its children. This environment variable acts like -P.
    os.environ["PYTHONSAFEPATH"] = "1"
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))


def _audit(setup: AuditSetup, ranges: Sequence[AuditRange]) -> list[RangeOutcome]:
    return list(audit_ranges(setup, ranges))
