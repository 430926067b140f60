"""Audits ranges by reading both clusters. Spark tasks and local processes run this code.

Each side has its own connection and is read ahead of the comparison. Memory use is bounded by four
fetch responses and the look-ahead of `ComparisonLimits`, whatever the size of the range.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import EARLIEST, OffsetResult
from connect.clients.cluster.partition_reader import (
    DEFAULT_FETCH_BYTES,
    AnswerBuffers,
    PartitionReader,
)
from connect.clients.config.properties import wire_settings
from connect.clients.errors import broker_code
from connect.errors import BrokerError, ConnectError, RetriableError
from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import TopicPartition
from connectors.mirror.audit.alignment import Alignment, ComparisonLimits
from connectors.mirror.audit.findings import RangeResult
from connectors.mirror.audit.plan import AuditRange
from connectors.mirror.compare.batch_runs import WireRun, wire_runs
from connectors.mirror.compare.record_streams import digest_of

__all__ = ["AuditSetup", "Auditor", "RangeOutcome", "audit_ranges"]

_LOG = logging.getLogger(__name__)

_TRIES = 3
"""Maximum number of attempts if retention moves a log start offset during the read."""

_Offsets = Mapping[TopicPartition, OffsetResult]

_COMMITTED: Literal[1] = 1
_LIST_S = 60.0

_BUFFERS = 5
"""Fetch responses held in memory: two per side, plus one."""


@dataclass(frozen=True, slots=True)
class AuditSetup:
    """The settings that a task needs besides its ranges; they are sent to wherever tasks run. The
    properties are Java consumer properties and contain secrets."""

    source: Mapping[str, str] = field(repr=False)
    target: Mapping[str, str] = field(repr=False)
    read_committed: bool = False
    """Whether the mirror skips aborted records of the source."""
    limits: ComparisonLimits = field(default_factory=ComparisonLimits)
    stall_s: float = 60.0
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    """Bytes requested from one side per fetch."""


@dataclass(frozen=True, slots=True)
class RangeOutcome:
    """The result of a range, or the error that prevented its audit."""

    range: AuditRange
    result: RangeResult | None
    error: str | None = None


def audit_ranges(setup: AuditSetup, ranges: Sequence[AuditRange]) -> Iterator[RangeOutcome]:
    """Audit these ranges in sequence and yield each outcome once it is known. An error in one range
    does not stop the others."""
    with ExitStack() as stack:
        source = stack.enter_context(Auditor.link(setup.source, {r.source[0] for r in ranges}))
        target = stack.enter_context(Auditor.link(setup.target, {r.target[0] for r in ranges}))
        auditor = Auditor(setup, source.link, target.link)
        for wanted in ranges:
            try:
                yield RangeOutcome(wanted, auditor.audit(wanted))
            except ConnectError as error:
                _LOG.warning("%s-%d: %s", *wanted.source, error)
                yield RangeOutcome(wanted, None, str(error))


class _Linked:
    """A context manager that closes a cluster link."""

    def __init__(self, link: ClusterLink) -> None:
        self.link = link

    def __enter__(self) -> _Linked:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()


class Auditor:
    """Audits ranges over two cluster links. Calls block. For one thread."""

    def __init__(self, setup: AuditSetup, source: ClusterLink, target: ClusterLink) -> None:
        """The links must have metadata for the ranges' topics."""
        self._setup = setup
        self._source = source
        self._target = target
        self._buffers = AnswerBuffers(_BUFFERS)

    @staticmethod
    def link(properties: Mapping[str, str], topics: Collection[str]) -> _Linked:
        """Return a link to the cluster of these Java consumer properties, with metadata for
        `topics`."""
        settings = wire_settings(properties)
        return _Linked(ClusterLink(settings, lambda: None, name="audit", topics=topics))

    def audit(self, wanted: AuditRange) -> RangeResult:
        """Audit one range. Raises one of `connect.errors`."""
        for attempt in range(_TRIES):
            present = self._present(wanted)
            try:
                return self._audit(present)
            except BrokerError as error:
                if broker_code(error) != ErrorCode.OFFSET_OUT_OF_RANGE or attempt + 1 == _TRIES:
                    raise
                _LOG.info(
                    "%s-%d: retention moved the log start during the audit; retrying",
                    *wanted.source,
                )
        raise RetriableError("not reached")

    def _present(self, wanted: AuditRange) -> AuditRange:
        """Return the part of a range that both logs still have."""
        asked = _ask_start(self._source, wanted.source)
        there = _ask_start(self._target, wanted.target)
        source, target = (_log_start(each) for each in (asked, there))
        rules = wanted.rules
        if source > wanted.source_start:
            rules = replace(rules, source_trimmed=True)
        if target > wanted.target_start:
            rules = replace(rules, target_trimmed=True)
        return replace(
            wanted,
            source_start=min(max(source, wanted.source_start), wanted.source_end),
            target_start=min(max(target, wanted.target_start), wanted.target_end),
            rules=rules,
        )

    def _audit(self, wanted: AuditRange) -> RangeResult:
        result = RangeResult(
            wanted.source_start, wanted.source_end, wanted.target_start, wanted.target_end
        )
        with ExitStack() as stack:
            source = self._source_reader(wanted, wanted.source_start, wanted.source_end)
            stack.callback(source.close)
            target = PartitionReader(
                self._target,
                wanted.target,
                wanted.target_start,
                wanted.target_end,
                isolation=_COMMITTED,
                fetch_bytes=self._setup.fetch_bytes,
                stall_s=self._setup.stall_s,
                buffers=self._buffers,
            )
            stack.callback(target.close)
            alignment = Alignment(
                result,
                self._runs(source, wanted.source_start, wanted.source_end),
                self._runs(target, wanted.target_start, wanted.target_end, committed=True),
                wanted.rules,
                self._setup.limits,
            )
            alignment.run()
        digests = {stray.digest for stray in alignment.extra}
        return alignment.finish(self._look_for(digests, wanted) if digests else {})

    def _source_reader(self, wanted: AuditRange, start: int, end: int) -> PartitionReader:
        return PartitionReader(
            self._source,
            wanted.source,
            start,
            end,
            isolation=1 if self._setup.read_committed else 0,
            fetch_bytes=self._setup.fetch_bytes,
            stall_s=self._setup.stall_s,
            buffers=self._buffers,
        )

    def _runs(
        self, reader: PartitionReader, start: int, end: int, *, committed: bool | None = None
    ) -> Iterator[WireRun]:
        isolated = self._setup.read_committed if committed is None else committed
        return wire_runs(reader, start, end, committed=isolated)

    def _look_for(self, digests: set[bytes], wanted: AuditRange) -> dict[bytes, int]:
        """Find the source offsets of records with these digests: in the range first, then after it,
        then before it."""
        found: dict[bytes, int] = {}
        here = wanted.source_start
        first = _log_start(_ask_start(self._source, wanted.source))
        before = max(wanted.partition_start, first)
        for start, end in ((here, max(wanted.source_end, wanted.partition_end)), (before, here)):
            if start < end and len(found) < len(digests):
                self._look_in(start, end, digests, wanted, found)
        return found

    def _look_in(
        self,
        start: int,
        end: int,
        digests: set[bytes],
        wanted: AuditRange,
        found: dict[bytes, int],
    ) -> None:
        with closing(self._source_reader(wanted, start, end)) as reader:
            for batch in chain.from_iterable(self._runs(reader, start, end)):
                columns = batch.columns()
                for offset, stamp, tail in zip(
                    columns.offsets, columns.timestamps, columns.tails, strict=True
                ):
                    digest = digest_of(stamp if wanted.rules.timestamps else 0, tail)
                    if digest in digests:
                        found.setdefault(digest, offset)
                if len(found) == len(digests):
                    return


def _ask_start(link: ClusterLink, key: TopicPartition) -> Future[_Offsets]:
    return link.list_offsets([key], EARLIEST, timeout_s=_LIST_S)


def _log_start(answer: Future[_Offsets]) -> int:
    """Return the log start offset of the requested partition."""
    (found,) = answer.result(2 * _LIST_S).values()
    if isinstance(found, ConnectError):
        raise found
    return found
