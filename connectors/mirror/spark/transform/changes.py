"""Decides which shards a flow's transformations apply to, and how each shard is copied. Runs on the
driver; thread-safe."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from connectors.mirror.config.rates import FlowLimits
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.copy.range_copier import DRAIN_S, SourceRange
from connectors.mirror.replication_policy import ReplicationPolicy
from connectors.mirror.spark.copy.executor import CopyFlow, ShardLimits, ShardResult
from connectors.mirror.spark.copy.flights import Flight
from connectors.mirror.spark.copy.shards import copy_shard
from connectors.mirror.spark.transform.executor import TransformedShard
from connectors.mirror.spark.transform.plan import FlowTransform
from connectors.mirror.topic_routes import TRANSFORM_KEY

__all__ = ["FlowChanges"]

_UNHEARD_S = DRAIN_S + 3.0
_PREPARE_S = 30.0
_LEAST_S = 1.0


class FlowChanges:
    """The `transforms` and the `mirror.transform` of one flow."""

    def __init__(self, config: SourceConfig, policy: ReplicationPolicy) -> None:
        """Raises `ConfigError` if `mirror.transform` names nothing."""
        self._alias = config.source_cluster_alias
        self._policy = policy
        value = config.originals.get(TRANSFORM_KEY, "").strip()
        self._transform = FlowTransform(value) if value else None
        self._checked: SparkSession | None = None

    @property
    def frames(self) -> bool:
        """Whether executors need the packages for DataFrames of Arrow batches."""
        return self._transform is not None

    @property
    def unheard_s(self) -> float:
        """Return how much longer than its time limit a task whose result is lost may copy."""
        return _UNHEARD_S if self._transform is None else _PREPARE_S + _UNHEARD_S

    def check(self, session: SparkSession) -> None:
        """Check, once for each session, what `mirror.transform` does. Raises `ConfigError`."""
        if self._transform is not None and session is not self._checked:
            self._transform.check(session)
            self._checked = session

    def copies_differ(self, topic: str) -> bool:
        """Whether copies of this topic of the source differ from their records."""
        return self._policy.changes_records(self._alias, topic)

    def by_spark(self, topic: str) -> bool:
        """Whether `mirror.transform` gets the records of this topic."""
        return self._policy.changed_by_spark(topic)

    def copy(
        self,
        session: SparkSession,
        flow: CopyFlow,
        flight: Flight,
        limits: ShardLimits,
        pace: FlowLimits | None,
    ) -> ShardResult:
        """Copy a shard, as `copy_shard`."""
        names = self._names(flight.shard)
        topics = frozenset(filter(self.by_spark, {each.source[0] for each in flight.shard}))
        if self._transform is None or not topics:
            return copy_shard(session, flow, flight.shard, limits, flight.claim, pace, names)
        shard = TransformedShard(flight.shard, topics, flight.probes, names)
        # Records that came since the shard was planned have no row yet. What was transformed shall
        # not be in vain because the copier had to connect.
        limits = limits._replace(
            follow=False, prepare_s=_PREPARE_S, most_s=max(limits.most_s, _LEAST_S)
        )
        return self._transform.copy(session, flow, shard, limits, flight.claim, pace)

    def _names(self, shard: Iterable[SourceRange]) -> dict[str, str]:
        """Return the topics that `transforms` change, with the names that the chain gets."""
        policy, alias = self._policy, self._alias
        return {
            topic: policy.format_remote_topic(alias, topic)
            for topic in {each.source[0] for each in shard}
            if policy.changed_by_chain(alias, topic)
        }
