"""Translates rounds of checkpoints on Spark.

What they are translated by is read incrementally, by `InProcessTranslator`, which also translates
while there is no session, and when a query fails: groups follow anyway, and the log says how.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from connect.clock import Deadline
from connectors.mirror.translation import Place
from connectors.mirror.translator import GroupOffset, InProcessTranslator, PageRow, SyncRow
from connectors.spark.arrow import collect
from connectors.spark.errors import SparkJobFailed, SparkUnavailable, first_line, job_errors
from connectors.spark.map_breaks import map_breaks
from connectors.spark.session import SharedSession, SparkLease, shared_session
from connectors.spark.tables import GROUP_OFFSETS, PAGES, SYNCS, arrow_table
from connectors.spark.translate import translate

__all__ = ["SparkTranslator", "translate_on_spark"]

_LOG = logging.getLogger(__name__)


def translate_on_spark(
    session: SparkSession,
    pages: Iterable[PageRow],
    syncs: Iterable[SyncRow],
    offsets: Sequence[GroupOffset],
) -> list[Place | None]:
    """Where each offset goes on, in their order; None where that is not known. Raises
    `SparkJobFailed`."""
    with job_errors("Translating group offsets"):
        answer = collect(
            translate(
                session,
                session.createDataFrame(arrow_table(SYNCS, syncs)),
                map_breaks(session.createDataFrame(arrow_table(PAGES, pages))),
                session.createDataFrame(arrow_table(GROUP_OFFSETS, offsets)),
            )
        )
    keys = zip(*(answer[name].to_pylist() for name in ("group", "topic", "partition")), strict=True)
    places = zip(
        *(answer[name].to_pylist() for name in ("downstream", "exact", "behind")), strict=True
    )
    found = {key: Place(*place) for key, place in zip(keys, places, strict=True)}
    return [found.get((each.group, each.topic, each.partition)) for each in offsets]


class SparkTranslator:
    """See the module. A `Translator`; takes over `local`, and closes it."""

    def __init__(
        self,
        local: InProcessTranslator,
        name: str,
        props: Mapping[str, str],
        shared: SharedSession | None = None,
    ) -> None:
        """`props`: properties whose `spark.*` configure the session, should this be its first
        user. It is asked for by the first call of `translate`."""
        self._local = local
        self._name = name
        self._props = props
        self._shared = shared
        self._lease: SparkLease | None = None
        self._running: SparkSession | None = None
        self._job_group = f"{name} {uuid4()}"
        self._said = ""

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        session = self._session()
        if session is None:
            return self._local.translate(offsets, deadline)
        self._local.catch_up(deadline)
        partitions = {(each.topic, each.partition) for each in offsets}
        self._running = session
        try:
            with job_errors("Translating group offsets"):
                session.sparkContext.setJobGroup(
                    self._job_group, self._name, interruptOnCancel=True
                )
            places = translate_on_spark(
                session, self._local.pages(partitions), self._local.syncs(partitions), offsets
            )
        except SparkJobFailed as error:
            self._say(f"in this process: {error}", logging.WARNING)
            return self._local.translate(offsets, deadline)
        finally:
            self._running = None
        self._say("on Spark", logging.INFO)
        return places

    def close(self, deadline: Deadline) -> None:
        session = self._running
        if session is not None:
            try:
                session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._job_group)
            except (Py4JError, OSError) as error:
                _LOG.debug("%s could not be cancelled: %s", self._name, first_line(error))
        if self._lease is not None:
            self._lease.release()
        self._local.close(deadline)

    def _session(self) -> SparkSession | None:
        try:
            if self._lease is None:
                shared = self._shared or shared_session()
                self._lease = shared.acquire(self._name, self._props)
        except SparkUnavailable as error:
            self._say(f"in this process: {error}", logging.WARNING)
            return None
        session = self._lease.session
        if session is None:
            self._say(f"in this process: Spark is {self._lease.state}", logging.INFO)
        return session

    def _say(self, where: str, level: int) -> None:
        if where != self._said:
            self._said = where
            _LOG.log(level, "%s: wide rounds are translated %s", self._name, where)
