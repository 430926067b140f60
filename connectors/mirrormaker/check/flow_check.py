"""Checks one flow whose clusters were both reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigEntry
from connect.clients.wire.api_versions import BrokerApis
from connect.clock import SYSTEM_CLOCK
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError, ConnectError
from connectors.mirror.api_support import (
    STORED_FORMAT,
    exactly_once_refusal,
    format_refusal,
    refusal,
)
from connectors.mirror.backfill.cluster_facts import described_configs
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.base import FORWARDING_ADMIN_KEY
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.config.transforms import transform_problems
from connectors.mirror.filters import config_property_filter
from connectors.mirror.inspect.flow import flow_producer
from connectors.mirror.source.connector import reads_committed
from connectors.mirror.topic_routes import TRANSFORM_KEY
from connectors.mirror.topics.clusters import topic_selector
from connectors.mirror.topics.create import copied_configs
from connectors.mirror.topics.forwarding_admin import ForwardingAdmin, forwarding_admin_class
from connectors.mirror.topics.provenance_topic import FlowTopics
from connectors.mirror.topics.selection import (
    REFUSED,
    Growth,
    Selection,
    TopicPartition,
    TopicPlan,
    TopicSelector,
    plan_topics,
)
from connectors.mirrormaker.check.loops import without_loops
from connectors.mirrormaker.check.own_topics import own_topics
from connectors.mirrormaker.check.permission_checks import concrete_names, permission_findings
from connectors.mirrormaker.check.provenance import connector_clients, data_producer
from connectors.mirrormaker.check.report import Finding, FlowReport, Level, TopicReport
from connectors.mirrormaker.check.topic_checks import (
    CopyConfigs,
    age_finding,
    config_findings,
    effective_configs,
    older_records,
    replication_findings,
    time_limits,
    topic_defaults,
)
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import SOURCE, mirrors, resolved_source_config
from connectors.mirrormaker.mirror_flow import FlowPlan
from connectors.mirrormaker.permissions import EXACTLY_ONCE, flow_features, flow_names
from connectors.mirrormaker.required_permissions import Feature
from connectors.spark.properties import DEFAULT_MASTER as DEFAULT_SPARK_MASTER
from connectors.spark.properties import MASTER as SPARK_MASTER
from connectors.spark.requirements import missing_pyspark

__all__ = ["ClusterView", "check_flow"]

SAMPLED_TOPICS = 20
"""Maximum number of target topics described to find out the broker defaults for a new topic."""

Described = Mapping[str, list[ConfigEntry]]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster that was reached. `topics` maps names to partition counts. The creator closes
    `admin`."""

    alias: str
    admin: Admin
    cluster_id: str
    brokers: int
    topics: Mapping[str, int]
    apis: BrokerApis


def check_flow(
    config: MirrorMakerConfig, plan: FlowPlan, source: ClusterView, target: ClusterView
) -> tuple[FlowReport, list[Finding]]:
    """Report what the flow would do, and the findings."""
    checker = _FlowChecker(config, plan, source, target)
    try:
        checker.run()
    except ConfigError as error:
        checker.find(Level.ERROR, str(error))
    except ConnectError as error:
        checker.find(Level.ERROR, f"the check could not finish: {error}")
    return checker.report, checker.findings


class _FlowChecker:
    def __init__(
        self,
        config: MirrorMakerConfig,
        plan: FlowPlan,
        source: ClusterView,
        target: ClusterView,
    ) -> None:
        self._config = config
        self._plan = plan
        self._source = source
        self._target = target
        self._props = resolved_source_config(config, plan)
        self._source_config = SourceConfig.from_properties(self._props)
        worker = config.worker_config(plan.source, plan.target)
        self._worker = WorkerConfig.from_properties(worker)
        self._exactly_once = worker.get(EXACTLY_ONCE, "").strip().lower() == "enabled"
        self._origins = config.effective_connector(plan.source, plan.target, SOURCE)
        self.report = FlowReport(plan.source, plan.target, mirrors(plan))
        self.findings: list[Finding] = []
        self._replicas: list[tuple[str, str, int, int]] = []

    def find(self, level: Level, text: str) -> None:
        self.findings.append(Finding(level, self.report.name, text))

    def run(self) -> None:
        if self.report.mirrors:
            self._versions()
            self._say_what_to_know()
            self._clients()
            self._topics()
        self._own_topics()
        self._permissions()
        self.findings += replication_findings(self.report.name, self._replicas)

    def _versions(self) -> None:
        """Report clusters whose brokers are too old for the flow."""
        refused = [
            refusal(self._source.alias, "source", self._source.apis),
            refusal(self._target.alias, "target", self._target.apis),
        ]
        if self._exactly_once:
            key = f"{self.report.target}.{EXACTLY_ONCE}"
            refused.append(exactly_once_refusal(self._target.alias, key, self._target.apis))
        for text in refused:
            if text is not None:
                self.find(Level.ERROR, text)

    def _say_what_to_know(self) -> None:
        if self._source_config.mirror_engine == "spark":
            master = self._props.get(SPARK_MASTER, DEFAULT_SPARK_MASTER)
            self.find(Level.NOTE, f"records are copied by Spark executors, on {master}")
        self._say_if_pyspark_is_missing()
        for problem in transform_problems(self._props):
            self.find(Level.ERROR, problem.message)
        self._load_transform()
        self._say_who_changes_topics()
        if not reads_committed(self._props):
            self.find(
                Level.NOTE,
                "records of aborted transactions are copied too, because the source consumer is "
                "read_uncommitted; to leave them out, set "
                f"{self.report.source}.consumer.isolation.level=read_committed",
            )

    def _say_who_changes_topics(self) -> None:
        made_by = forwarding_admin_class(self._props)
        if made_by is not ForwardingAdmin:
            self.find(
                Level.NOTE,
                f"{made_by.__module__}:{made_by.__qualname__} ({FORWARDING_ADMIN_KEY}) creates and "
                "changes topics; whether it may is not checked",
            )

    def _load_transform(self) -> None:
        """Find what `mirror.transform` names. Whether it is right only a session can tell."""
        value = self._props.get(TRANSFORM_KEY, "").strip()
        if not value or missing_pyspark() is not None:
            return
        # Import it only here, because PySpark takes memory that processes without it can save.
        from connectors.mirror.spark.transform.function import load_transform

        load_transform(value)

    def _say_if_pyspark_is_missing(self) -> None:
        problem = missing_pyspark()
        if problem is not None and self._source_config.mirror_engine == "spark":
            self.find(Level.ERROR, problem)

    def _clients(self) -> None:
        worker_origins = self._config.effective_worker(self.report.source, self.report.target)
        producer = flow_producer(self._worker, self._props, f"connector-producer-{SOURCE}-0")
        self.report.clients += connector_clients(self._origins, self._props)
        self.report.clients.append(data_producer(producer, worker_origins, self._origins))

    # Checks of the mirrored topics.

    def _topics(self) -> None:
        same = self._source.cluster_id == self._target.cluster_id
        if same:
            self.find(
                Level.WARNING,
                f"{self.report.source} and {self.report.target} are the same cluster",
            )
        selector = topic_selector(self._source_config, same_cluster=same)
        topics = FlowTopics(
            (self._source.admin, self._source.cluster_id),
            (self._target.admin, self._target.cluster_id),
            selector,
            selector.select(self._source.topics),
        )
        selection = without_loops(self._source_config, topics)
        self._report_refused(selection)
        self.report.skipped += selection.skipped
        changed = [topic for topic in selection.copied if selector.changes_records(topic)]
        if changed:
            self.find(Level.NOTE, _transformed(changed, len(selection.copied)))
        plan = plan_topics(selection.copied, self._target.topics, selector)
        described = described_configs(self._source.admin, list(selection.copied))
        created = {topic.remote for topic in plan.create}
        on_target = self._described_on_target(
            [remote for remote in map(selector.remote, selection.copied) if remote not in created]
        )
        new = self._new_configs(plan, described, on_target)
        self._report_topics(selection, selector, plan, new)
        copies = self._copies(selection, selector, described, on_target, new)
        factor = self._source_config.replication_factor
        self._stored_formats(copies)
        for copy in copies:
            self.findings += config_findings(copy, factor if copy.remote in created else None)
        self._check_ages(copies, selection)

    def _report_refused(self, selection: Selection) -> None:
        for skip in selection.skipped:
            if skip.reason in REFUSED:
                text = f"topic {skip.topic} is not copied: {skip.detail}"
                self.find(Level.WARNING, text)

    def _described_on_target(self, existing: list[str]) -> Described:
        """Return the configs of existing copies and of a sample of other target topics."""
        others = [topic for topic in self._target.topics if topic not in existing]
        return described_configs(self._target.admin, [*existing, *others[:SAMPLED_TOPICS]])

    def _new_configs(
        self, plan: TopicPlan, described: Described, on_target: Described
    ) -> dict[str, dict[str, str]]:
        """Return the configs of each copy to create, taken from its source. Configs that no
        described target topic has are left out, because the target's Kafka version does not know
        them."""
        known = {entry.name for entries in on_target.values() for entry in entries}
        properties = config_property_filter(self._props)
        found: dict[str, dict[str, str]] = {}
        for topic in plan.create:
            configs = copied_configs(described[topic.source], properties)
            unknown = sorted(configs.keys() - known) if known else []
            if unknown:
                text = (
                    f"is created without {', '.join(unknown)}, unlike its source: the target's "
                    "Kafka version does not know this config"
                )
                self.findings.append(Finding(Level.NOTE, topic.remote, text))
            found[topic.source] = {
                name: value for name, value in configs.items() if name not in unknown
            }
        return found

    def _report_topics(
        self,
        selection: Selection,
        selector: TopicSelector,
        plan: TopicPlan,
        new: Mapping[str, dict[str, str]],
    ) -> None:
        grow: Mapping[str, Growth] = {growth.source: growth for growth in plan.grow}
        factor = self._source_config.replication_factor
        for topic, partitions in selection.copied.items():
            remote = selector.remote(topic)
            if topic in new:
                row = TopicReport(topic, remote, partitions, "create", factor, new[topic])
                key = self._written("replication.factor")
                self._replicas.append((key, remote, factor, self._target.brokers))
            elif topic in grow:
                row = TopicReport(topic, remote, partitions, f"raise from {grow[topic].existing}")
            else:
                row = TopicReport(topic, remote, partitions, "exists")
                self._note_larger(remote, partitions)
            self.report.topics.append(row)

    def _note_larger(self, remote: str, partitions: int) -> None:
        existing = self._target.topics[remote]
        if existing > partitions:
            text = (
                f"has {existing} partitions, its source {partitions}: the mirror leaves the "
                "additional partitions unchanged"
            )
            self.findings.append(Finding(Level.NOTE, remote, text))

    def _copies(
        self,
        selection: Selection,
        selector: TopicSelector,
        described: Described,
        on_target: Described,
        new: Mapping[str, dict[str, str]],
    ) -> list[CopyConfigs]:
        """Return the effective configs of each topic and its copy; for a copy to create, its future
        configs."""
        defaults = topic_defaults(on_target)
        return [
            CopyConfigs(
                topic,
                selector.remote(topic),
                effective_configs(described[topic]),
                {**defaults, **new[topic]}
                if topic in new
                else effective_configs(on_target[selector.remote(topic)]),
            )
            for topic in selection.copied
        ]

    def _stored_formats(self, copies: Iterable[CopyConfigs]) -> None:
        if not self._target.apis.before_3_0:
            return
        for copy in copies:
            refused = format_refusal(copy.target.get(STORED_FORMAT))
            if refused is not None:
                self.findings.append(Finding(Level.ERROR, copy.remote, refused))

    def _check_ages(self, copies: Iterable[CopyConfigs], selection: Selection) -> None:
        """Warn of records that the target would reject or delete at once because of their age."""
        by_limit: dict[tuple[str, int], list[CopyConfigs]] = {}
        for copy in copies:
            for limit in time_limits(copy).items():
                by_limit.setdefault(limit, []).append(copy)
        now = SYSTEM_CLOCK.now_ms()
        for (key, limit_ms), limited in by_limit.items():
            partitions = {
                copy.topic: [(copy.topic, p) for p in range(selection.copied[copy.topic])]
                for copy in limited
            }
            every = [partition for found in partitions.values() for partition in found]
            admin = self._source.admin
            start, end = admin.beginning_offsets(every), admin.end_offsets(every)
            young = admin.offsets_for_timestamp(every, max(0, now - limit_ms))
            for copy in limited:
                mine = partitions[copy.topic]
                older = older_records(_only(start, mine), end, young)
                if older:
                    self.findings.append(age_finding(copy, key, limit_ms, older))

    # Checks of the mirror's internal topics.

    def _own_topics(self) -> None:
        for topic in own_topics(self._plan, self._worker, self._props, self._source_config):
            where, name = self._source if topic.side == "source" else self._target, topic.name
            if name in where.topics:
                row = TopicReport(name, name, where.topics[name], "exists")
            else:
                configs = dict(topic.configs)
                row = TopicReport(name, name, topic.partitions, "create", topic.factor, configs)
                key = self._written(topic.key)
                self._replicas.append((key, name, topic.factor, where.brokers))
            self.report.own_topics.append((where.alias, row))

    def _permissions(self) -> None:
        names = concrete_names(
            flow_names(self._config, self._plan),
            [row.topic for row in self.report.topics],
            [row.remote for row in self.report.topics],
        )
        self.findings += permission_findings(
            self.report.name,
            names,
            flow_features(self._config, self._plan) | {Feature.OLD_BROKERS},
            self._worker.own_client_properties("check"),
            {
                self.report.source: client_configs.source_admin(self._props),
                self.report.target: client_configs.target_admin(self._props),
            },
            forwarded=forwarding_admin_class(self._props) is not ForwardingAdmin,
        )

    def _written(self, key: str) -> str:
        """Return the key that the user set, or would have to set."""
        origin = self._origins.get(key)
        return origin.key if origin is not None and origin.key else key


def _only(
    offsets: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    return {partition: offsets[partition] for partition in partitions if partition in offsets}


def _transformed(changed: Sequence[str], topics: int) -> str:
    named = ", ".join(changed[:SAMPLED_TOPICS])
    more = f" and {len(changed) - SAMPLED_TOPICS} more" if len(changed) > SAMPLED_TOPICS else ""
    return (
        f"records of {len(changed)} of {topics} topics are transformed one by one, which takes"
        f" more CPU than copying their batches: {named}{more}"
    )
