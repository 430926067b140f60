"""Translates offsets in the checkpoint task's process or on Spark (`mirror.translation.engine`).

    auto      in the process; repeated rounds of `mirror.translation.spark.min.offsets` or more
              on Spark (`large_rounds`), or in the process if there is no session
    process   always in the process
    spark     always on Spark, which also reads the offset syncs and the offset map, so the
              process holds neither. Without a session nothing is translated, and the task
              retries

Even a small Spark query costs about a second of a core, and a session costs hundreds of megabytes.
In the process, an offset costs some microseconds. So `auto` loads neither PySpark nor a session
before rounds justify it.

Two things are computed here: the translated offsets of groups (on the translating thread), and the
offsets to commit for them on the target (on the syncing thread). Spark never reads or commits group
offsets itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from connect.clients.groups.consumer_groups import Committed, GroupListing
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.metrics.registry import MetricRegistry, MetricValue
from connectors.mirror.checkpoints.group_offset_sync import (
    Checkpoints,
    GroupPlan,
    plan_group_offsets,
)
from connectors.mirror.checkpoints.large_rounds import LargeRoundPolicy
from connectors.mirror.offsets.last_translation import LastTranslation
from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import (
    GroupOffset,
    InProcessTranslator,
    TopicPartition,
    TranslationTopics,
    Translator,
)
from connectors.spark.errors import SparkJobFailed, SparkUnavailable
from connectors.spark.requirements import SparkMissing, missing_pyspark
from connectors.spark.session_state import SPARK_JOB_GROUP, SPARK_SESSION_GROUP

if TYPE_CHECKING:
    from connectors.mirror.spark.translate.round_translator import SparkRounds
    from connectors.spark.queries import SparkQueries

__all__ = ["Engine", "EngineSetup", "TranslationEngine"]

_LOG = logging.getLogger(__name__)

Engine = Literal["auto", "process", "spark"]

# The two jobs of a checkpoint task, and the engines of their last runs, as metrics show them.
_TRANSLATION, _GROUP_SYNC = "Checkpoints", "Group offset sync"
_SPARK = "spark"
_NO_SESSION = "process: Spark is not ready or failed"
_NO_PYSPARK = "process: PySpark is missing or has an unsuitable version"
_SELDOM = "process: too few large rounds in a row to start Spark"


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """The parameters of an engine. `engine` and `min_offsets`: the properties described above.
    `task`: its name in logs and Spark. `props`: their `spark.*` configure the session. `on_ready`:
    called on the session's thread once it has started."""

    engine: Engine
    min_offsets: int
    task: str
    props: Mapping[str, str]
    topics: TranslationTopics
    metrics: MetricRegistry
    on_ready: Callable[[], None]
    keep_all_syncs: bool = True


class TranslationEngine:
    """A `Translator` that uses the process or Spark. Call `open` first. `close` also ends a running
    call."""

    def __init__(self, setup: EngineSetup, clock: Clock = SYSTEM_CLOCK) -> None:
        self._setup = setup
        self._clock = clock
        self.metrics = setup.metrics
        self._local = (
            None
            if setup.engine == "spark"
            else InProcessTranslator(setup.topics, keep_all_while_loading=setup.keep_all_syncs)
        )
        self._lock = threading.Lock()
        self._closed = False
        self._queries: dict[str, SparkQueries] = {}
        self._engines = dict.fromkeys((_TRANSLATION, _GROUP_SYNC), "")
        self._removers: list[Callable[[], None]] = []
        self._reading: Translator | None = None
        self._round_by_round: SparkRounds | None = None
        self._rounds = LargeRoundPolicy(setup.min_offsets)
        self._answer = LastTranslation()
        self._said = ""
        self._has_pyspark = missing_pyspark() is None
        for work in self._engines:
            tags = {"job": self._job_name(work)}
            self._removers.append(
                self.metrics.register(SPARK_JOB_GROUP, tags, partial(self._read_job, work))
            )

    def open(self, deadline: Deadline) -> None:
        """Load the offset syncs and the offset map, if the process translates. Raises
        `ConnectError`."""
        if self._local is not None:
            self._local.open(deadline)
        elif (problem := missing_pyspark()) is not None:
            raise SparkMissing(problem)

    # Methods of the translating thread.

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        if self._local is None:
            self._engines[_TRANSLATION] = _SPARK
            return self._reading_spark().translate(offsets, deadline)
        self._local.catch_up(deadline)
        if self._setup.engine == "auto" and self._rounds.is_wide(len(offsets)):
            return self._wide_round(self._local, offsets)
        self._rounds.interrupted()
        self._rest(_TRANSLATION)
        self._engines[_TRANSLATION] = self._why_in_process(len(offsets))
        return self._local.places(offsets)

    def _wide_round(
        self, local: InProcessTranslator, offsets: Sequence[GroupOffset]
    ) -> Sequence[Place | None]:
        known = self._answer.of(local.version, offsets)
        if known is not None:
            self._rounds.interrupted()
            self._rest(_TRANSLATION)
            return known
        if self._rounds.worth_spark() and self._has_pyspark:
            found = self._round_spark(local).places(offsets)
            self._engines[_TRANSLATION] = _SPARK if found.on_spark else _NO_SESSION
            return self._answer.keep(found.places) if found.on_spark else found.places
        self._rest(_TRANSLATION)
        self._engines[_TRANSLATION] = self._why_in_process(len(offsets))
        began = self._clock.monotonic()
        places = local.places(offsets)
        self._rounds.took(self._clock.monotonic() - began)
        return self._answer.keep(places)

    def _reading_spark(self) -> Translator:
        if self._reading is None:
            from connectors.mirror.spark.translate.topic_translator import SparkTopicTranslator

            self._reading = SparkTopicTranslator(
                self._setup.topics,
                self._spark_queries(_TRANSLATION, kafka=True),
                keep_all_while_loading=self._setup.keep_all_syncs,
            )
        return self._reading

    def _round_spark(self, local: InProcessTranslator) -> SparkRounds:
        if self._round_by_round is None:
            from connectors.mirror.spark.translate.round_translator import SparkRounds

            self._round_by_round = SparkRounds(local, self._spark_queries(_TRANSLATION))
        return self._round_by_round

    # Methods of the syncing thread.

    def plan_group_offsets(
        self,
        checkpoints: Checkpoints,
        states: Mapping[str, GroupListing],
        committed: Mapping[str, Mapping[TopicPartition, Committed]],
    ) -> GroupPlan:
        """Like `group_offset_sync.plan_group_offsets`. With the engine `spark`, raises
        `SparkUnavailable` and `SparkJobFailed`."""
        offsets = sum(map(len, checkpoints.values()))
        if not self._plans_on_spark(offsets):
            self._rest(_GROUP_SYNC)
            self._engines[_GROUP_SYNC] = self._why_in_process(offsets)
            return plan_group_offsets(checkpoints, states, committed)
        from connectors.mirror.spark.translate.group_offset_plan import plan_on_spark

        queries = self._spark_queries(_GROUP_SYNC)
        self._engines[_GROUP_SYNC] = _SPARK
        try:
            # The process needs less than a second for it, which does not justify a session.
            session = queries.session(start=self._local is None)
            with queries.query(session, "Planning group offset commits"):
                return plan_on_spark(session, checkpoints, states, committed)
        except (SparkUnavailable, SparkJobFailed) as error:
            if self._local is None:
                raise
            self._engines[_GROUP_SYNC] = _NO_SESSION
            if str(error) != self._said:
                self._said = str(error)
                _LOG.info(
                    "%s: Spark failed, so group offset commits are planned in this process: %s",
                    queries.name,
                    error,
                )
            return plan_group_offsets(checkpoints, states, committed)
        finally:
            if self._local is not None:
                queries.rest()

    # Methods for any thread.

    def close(self, deadline: Deadline) -> None:
        with self._lock:
            self._closed = True
            queries, removers = list(self._queries.values()), self._removers
        for each in queries:
            each.close()
        for remove in removers:
            remove()
        if self._reading is not None:
            self._reading.close(deadline)
        if self._local is not None:
            self._local.close(deadline)

    def _plans_on_spark(self, offsets: int) -> bool:
        if self._setup.engine == "auto":
            # This task has no session until rounds justify one.
            return self._round_by_round is not None and self._rounds.is_wide(offsets)
        return self._setup.engine == "spark"

    def _rest(self, work: str) -> None:
        queries = self._queries.get(work)
        if queries is not None:
            queries.rest()

    def _spark_queries(self, work: str, *, kafka: bool = False) -> SparkQueries:
        """Create the Spark queries of one thread, and show them on the metrics page."""
        from connectors.spark.queries import SparkQueries

        setup = self._setup
        with self._lock:
            if self._closed:
                raise SparkUnavailable(f"{setup.task} is being stopped")
            queries = self._queries.get(work)
            if queries is None:
                queries = SparkQueries(
                    self._job_name(work),
                    setup.props,
                    kafka=kafka,
                    on_ready=setup.on_ready,
                    background=setup.engine != "spark",
                )
                self._queries[work] = queries
                self._removers.append(
                    self.metrics.register(SPARK_SESSION_GROUP, {}, queries.read_session)
                )
            return queries

    def _job_name(self, work: str) -> str:
        return f"{work} of {self._setup.task}"

    def _read_job(self, work: str) -> dict[str, MetricValue]:
        queries = self._queries.get(work)
        values: dict[str, MetricValue] = {"status": "idle"} if queries is None else queries.read()
        return {**values, "engine": self._engines[work]}

    def _why_in_process(self, offsets: int) -> str:
        if self._setup.engine == "process":
            return "process: mirror.translation.engine is process"
        if not self._rounds.is_wide(offsets):
            return f"process: the round had fewer than {self._setup.min_offsets} offsets"
        return _SELDOM if self._has_pyspark else _NO_PYSPARK
