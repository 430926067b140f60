"""Where ranges are audited: in processes of this machine. Spark is the other way
(`connectors.mirror.spark.audit`), behind the same call.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from connectors.mirror.audit.auditor import AuditSetup, RangeOutcome, audit_ranges
from connectors.mirror.audit.plan import DEFAULT_RANGE_BYTES, AuditRange

__all__ = ["AuditEngine", "local_engine", "process_pool", "shares"]

AuditEngine = Callable[[AuditSetup, Sequence[AuditRange]], Iterable[RangeOutcome]]
"""Audits all ranges; outcomes in any order."""

_PER_TASK = 64
"""Ranges of one task: they share its two connections."""

_RANGE_COST = 16 * 1024
"""In bytes that could be read meanwhile: its offsets are asked for, and its fetches wait."""


def shares(ranges: Sequence[AuditRange], tasks: int) -> list[list[AuditRange]]:
    """The ranges in shares for tasks: the large ones first and alone, the small ones together. Not
    fewer shares than `tasks` where there are ranges enough, and none that takes long: there may be
    more executors later than there are now."""
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
    """Bytes, and what a range costs whatever its size."""
    return wanted.bytes + _RANGE_COST


def local_engine(processes: int) -> AuditEngine:
    """So many processes of this machine; with 1, this one."""

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
    """A pool of new Python processes that import nothing from the working directory."""
    # multiprocessing takes no options for its children; this is -P for all that start from now on.
    os.environ["PYTHONSAFEPATH"] = "1"
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))


def _audit(setup: AuditSetup, ranges: Sequence[AuditRange]) -> list[RangeOutcome]:
    return list(audit_ranges(setup, ranges))
