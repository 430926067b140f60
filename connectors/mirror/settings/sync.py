"""Keeps configs and read permissions of mirrored topics the same as on the source.

Two periodic jobs, each if the flow enables it: this module reads both clusters, lets Spark
(`connectors.mirror.spark.settings_plans`) or the process (`plans`) compute what to change, and
changes it. `connectors.spark.background` decides which of the two computes. The sync uses the
connections of the flow's topic refresh, and begins when that has reached both clusters. While
nothing changes on either side nothing is computed, and no session needed. A topic whose configs
cannot be changed holds up no other.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from connect.clients.cluster.missing_permissions import missing_permissions
from connect.clients.errors import broker_code
from connect.clients.librdkafka.acls import Acl
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigChange
from connect.clients.permissions import Operation, Permission, Resource
from connect.clock import Deadline
from connect.errors import BrokerError, ConfigError, ConnectError, RetriableError
from connect.metrics.registry import MetricRegistry
from connect.protocol.error_codes import ErrorCode
from connectors.mirror.api_support import STORED_FORMAT
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.filters import ConfigPropertyFilter, config_property_filter
from connectors.mirror.settings.plans import (
    ConfigRow,
    Plan,
    PropertyRow,
    acl_plan,
    config_changes,
)
from connectors.mirror.topics.clusters import Clusters
from connectors.mirror.topics.refresh import TopicRefresh
from connectors.spark.background import Copying
from connectors.spark.job_runner import PeriodicJob, PeriodicWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors.spark.session import SharedSession

__all__ = ["SettingsSync"]

log = logging.getLogger(__name__)

DESCRIBED_AT_ONCE = 500
"""Topics in one request. A topic has some 35 configs, of about 50 bytes each."""
CHANGED_AT_ONCE = 200
LOGGED_TOPICS = 20
"""Maximum number of topics whose changes are logged one by one; the rest are only counted."""


class SettingsSync:
    """The config and ACL sync of one flow. The owner calls `start` and `stop` once each."""

    def __init__(
        self,
        config: SourceConfig,
        refresh: TopicRefresh,
        *,
        on_fatal: Callable[[Exception], None],
        copying: Copying,
        shared: SharedSession | None = None,
    ) -> None:
        """`on_fatal`: the target can never be written to with this configuration; on a job's
        thread. `copying`: whether copies of this process have not caught up yet. Raises
        `ConfigError`."""
        self._flow = config.flow
        self._timeout = config.admin_timeout_ms / 1000
        self._properties = config_property_filter(config.originals)
        self._refresh = refresh
        self._failures: dict[str, str] = {}
        self._left_out: Counter[str] = Counter()
        # The last state of both sides, and the changes planned for it.
        self._config_plan: tuple[int, Plan] = (0, [])
        self._acl_plan: tuple[int, Plan] = (0, [])
        self._acl_failures: dict[Acl, str] = {}
        self._without_acls = False
        self._source = client_configs.source_admin(config.originals)
        self._told_of_source_acls = False
        self._removers: list[Callable[[], None]] = []
        wanted = (
            ("Config sync", self._config_work, config.sync_topic_configs_interval_s),
            ("ACL sync", self._acl_work, config.sync_topic_acls_interval_s),
        )
        self.jobs = [
            PeriodicJob(
                f"{name} of {self._flow}",
                find_work,
                interval_s=interval_s,
                properties=config.originals,
                copying=copying,
                on_fatal=on_fatal,
                shared=shared,
            )
            for name, find_work, interval_s in wanted
            if interval_s is not None
        ]

    def start(self, metrics: MetricRegistry) -> None:
        """Start the jobs and register their metrics with `metrics`."""
        for job in self.jobs:
            self._removers.append(job.register(metrics))
            job.start()

    def wake(self) -> None:
        """Check the settings now, because topics have changed."""
        for job in self.jobs:
            job.wake()

    def stop(self) -> None:
        for job in self.jobs:
            job.request_stop()
        for job in self.jobs:
            job.stop()
        for remove in self._removers:
            remove()

    # Methods of the config job's thread.

    def _config_work(self) -> PeriodicWork | None:
        clusters = self._refresh.clusters
        if clusters is None:
            return None  # The topic refresh wakes the job when there are topics.
        pairs = _mirrored(clusters, self._timeout)
        if not pairs:
            return None
        source = _read_configs(clusters.source, [topic for topic, _ in pairs], self._timeout)
        copies = [remote for _, remote in pairs]
        target = _read_configs(
            clusters.target, copies, self._timeout, needs=Operation.ALTER_CONFIGS
        )
        judged = _judged({row[1] for row in source}, self._properties)
        found = hash((frozenset(source), frozenset(target), frozenset(pairs), frozenset(judged)))
        if found == self._config_plan[0]:
            self._change(clusters.target, self._config_plan[1])
            return None

        def change(rows: Plan) -> bool:
            self._config_plan = (found, rows)
            self._change(clusters.target, rows)
            return bool(rows)

        def on_spark(session: SparkSession) -> bool:
            from connectors.mirror.spark.settings_plans import config_changes_on_spark

            return change(config_changes_on_spark(session, source, target, pairs, judged))

        def in_process() -> bool:
            return change(config_changes(source, target, pairs, judged))

        return PeriodicWork(on_spark, in_process)

    def _change(self, target: Admin, changes: Sequence[Mapping[str, str | None]]) -> None:
        by_topic: defaultdict[str, list[ConfigChange]] = defaultdict(list)
        told: defaultdict[str, list[str]] = defaultdict(list)
        for row in changes:
            remote, name = str(row["remote"]), str(row["name"])
            by_topic[remote].append(ConfigChange(name, row["value"]))
            told[remote].append(_told(name, row["value"], row["before"]))
        topics = sorted(by_topic)
        failed: dict[str, ConnectError] = {}
        for first in range(0, len(topics), CHANGED_AT_ONCE):
            chunk = {topic: by_topic[topic] for topic in topics[first : first + CHANGED_AT_ONCE]}
            failed |= target.alter_topic_configs(chunk, self._timeout)
        done = [topic for topic in topics if topic not in failed]
        for topic in done[:LOGGED_TOPICS]:
            log.info("%s: topic %s: %s", self._flow, topic, ", ".join(sorted(told[topic])))
        if len(done) > LOGGED_TOPICS:
            log.info("%s: changed configs of %d more topics", self._flow, len(done) - LOGGED_TOPICS)
        self._report(failed)

    def _report(self, failed: Mapping[str, ConnectError]) -> None:
        """Log each failure when it is new or has changed."""
        if any(broker_code(error) == ErrorCode.UNSUPPORTED_VERSION for error in failed.values()):
            raise ConfigError(
                f"{self._flow}: the target's brokers cannot change single configs of a topic "
                "(KIP-339, Kafka 2.3); set sync.topic.configs.enabled=false",
                key="sync.topic.configs.enabled",
            )
        current = {topic: str(error) for topic, error in failed.items()}
        for topic, reason in current.items():
            if self._failures.get(topic) != reason:
                log.warning("%s: cannot change configs of topic %s: %s", self._flow, topic, reason)
        self._failures = current
        waiting = [topic for topic, error in failed.items() if error.retriable]
        if waiting:
            raise RetriableError(
                f"Cannot change the configs of {len(waiting)} topics, for example {waiting[0]}: "
                f"{failed[waiting[0]]}"
            )

    # Methods of the ACL job's thread.

    def _acl_work(self) -> PeriodicWork | None:
        clusters = self._refresh.clusters
        if clusters is None:
            return None
        source = clusters.source.describe_topic_acls(self._timeout)
        if not source:
            # A source without an authorizer has none, too.
            self._tell_if_refused()
            return None
        target = self._acls_of(clusters.target)
        selector = clusters.selector
        names = {acl.topic for acl in source}
        topics = {name: selector.remote(name) for name in names if selector.skip(name) is None}
        found = hash((frozenset(source), frozenset(target), frozenset(topics.items())))
        if found == self._acl_plan[0]:
            self._create(clusters.target, self._acl_plan[1])
            return None

        def create(plan: Plan) -> bool:
            self._acl_plan = (found, plan)
            return self._create(clusters.target, plan)

        def on_spark(session: SparkSession) -> bool:
            from connectors.mirror.spark.settings_plans import acl_plan_on_spark

            return create(acl_plan_on_spark(session, source, target, topics))

        def in_process() -> bool:
            return create(acl_plan(source, target, topics))

        return PeriodicWork(on_spark, in_process)

    def _tell_if_refused(self) -> None:
        """Warn once if the mirror may not read the source's ACLs. librdkafka returns none then."""
        if self._told_of_source_acls:
            return
        wanted = Permission(Resource.CLUSTER, "", Operation.DESCRIBE)
        if missing_permissions(self._source, [wanted], Deadline(self._timeout)):
            self._told_of_source_acls = True
            log.warning(
                "%s: ACLs are not mirrored, because the source does not show them "
                "(CLUSTER_AUTHORIZATION_FAILED); grant Describe on the cluster at the source, or "
                "set sync.topic.acls.enabled=false",
                self._flow,
            )

    def _acls_of(self, target: Admin) -> list[Acl]:
        try:
            return target.describe_topic_acls(self._timeout)
        except BrokerError as error:
            if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
            return []  # Creating an existing entry again changes nothing.

    def _create(self, target: Admin, plan: Plan) -> bool:
        """Create the planned entries. Returns whether any was created."""
        acls = [
            Acl(*(str(row[name]) for name in Acl._fields))
            for row in plan
            if row["outcome"] == "create"
        ]
        failed = target.create_acls(acls, self._timeout)
        for acl in acls:
            if acl not in failed:
                log.info("%s: created ACL: %s", self._flow, acl)
        self._report_acls(failed)
        self._tell_left_out(Counter(str(row["outcome"]) for row in plan))
        return len(failed) < len(acls)

    def _report_acls(self, failed: Mapping[Acl, ConnectError]) -> None:
        """Log each failure when it is new or has changed."""
        disabled = any(
            broker_code(error) == ErrorCode.SECURITY_DISABLED for error in failed.values()
        )
        if disabled and not self._without_acls:
            log.warning(
                "%s: ACLs are not mirrored: the target has no authorizer. Set "
                "sync.topic.acls.enabled=false, or give its brokers one",
                self._flow,
            )
        self._without_acls = disabled
        current = {} if disabled else {acl: str(error) for acl, error in failed.items()}
        for acl, reason in current.items():
            if self._acl_failures.get(acl) != reason:
                log.warning("%s: %s", self._flow, reason)
        self._acl_failures = current

    def _tell_left_out(self, outcomes: Counter[str]) -> None:
        left_out = Counter({key: outcomes[key] for key in ("write", "pattern", "topic")})
        if left_out != self._left_out and left_out.total():
            log.info(
                "%s: ACL entries that are not mirrored: %d allow WRITE, %d are not for a single "
                "topic by name, %d are for topics that are not mirrored",
                self._flow,
                left_out["write"],
                left_out["pattern"],
                left_out["topic"],
            )
        self._left_out = left_out


def _mirrored(clusters: Clusters, timeout: float) -> list[tuple[str, str]]:
    """Return topics that exist on both sides, with their names on the target."""
    copied = clusters.selector.select(clusters.source.list_topics(timeout)).copied
    there = clusters.target.list_topics(timeout)
    pairs = [(topic, clusters.selector.remote(topic)) for topic in copied]
    return [(topic, remote) for topic, remote in pairs if remote in there]


def _read_configs(
    admin: Admin,
    topics: Sequence[str],
    timeout: float,
    needs: Operation = Operation.DESCRIBE_CONFIGS,
) -> list[ConfigRow]:
    """Return CONFIGS of these topics, without topics that were deleted meanwhile."""
    rows: list[ConfigRow] = []
    for first in range(0, len(topics), DESCRIBED_AT_ONCE):
        chunk = topics[first : first + DESCRIBED_AT_ONCE]
        described = admin.describe_topic_configs(chunk, timeout, missing_ok=True, needs=needs)
        rows += [
            (topic, entry.name, entry.value, entry.source.name, entry.read_only, entry.sensitive)
            for topic, entries in described.items()
            for entry in entries
        ]
    return rows


def _judged(names: Iterable[str], properties: ConfigPropertyFilter) -> list[PropertyRow]:
    return [
        (
            name,
            name != STORED_FORMAT and properties.should_replicate_config_property(name),
            properties.should_replicate_source_default(name),
        )
        for name in names
    ]


def _told(name: str, value: str | None, before: str | None) -> str:
    if value is None:
        return f"{name} back to its default (was {before})"
    return f"{name}={value} (was {before})"
