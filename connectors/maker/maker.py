"""Dedicated mode: every flow of an mm2.properties in one process, each with a worker of its own.

For each ordered pair of clusters that mirrors, or at least sends heartbeats, one herder runs
against the target cluster, with the connectors in MirrorMaker 2's order. Flows start, fail and
stop independently of one another.
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import partial

from connect.clients.admin import Admin
from connect.clock import Deadline
from connect.config.providers import ConfigProviders
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError, RetriableError
from connect.metrics.registry import MetricRegistry
from connect.runtime.herder import ConnectorStatus, Herder
from connect.runtime.plugins import PluginRegistry
from connect.runtime.standalone import StandaloneHerder
from connect.runtime.worker import Worker
from connectors.maker.config import MirrorMakerConfig
from connectors.maker.flow import FlowPlan, FlowState, MirrorFlow
from connectors.maker.loops import Loop, find_loops
from connectors.mirror import plugins as mirror_plugins
from connectors.mirror.source_connector import validate_source
from connectors.mirror.topic_refresh import CONTACT_TIMEOUT_S, contact

__all__ = [
    "CONNECTORS",
    "MirrorMaker",
    "check_source",
    "loops_of",
    "mirrors",
    "not_there_yet",
    "plan_flows",
    "resolved_source_config",
]

log = logging.getLogger(__name__)

SOURCE, HEARTBEAT = "MirrorSourceConnector", "MirrorHeartbeatConnector"
CONNECTORS = (SOURCE, HEARTBEAT)
"""In the order in which MirrorMaker 2 creates them."""


def plan_flows(config: MirrorMakerConfig, clusters: Sequence[str] | None = None) -> list[FlowPlan]:
    """What runs: one plan for each pair of clusters whose target is in `clusters` (None: all).

    Raises `ConfigError`, also where nothing would run.
    """
    return [
        FlowPlan(
            flow.source,
            flow.target,
            {name: config.connector_config(flow.source, flow.target, name) for name in CONNECTORS},
        )
        for flow in config.flows(clusters)
    ]


def resolved_source_config(config: MirrorMakerConfig, plan: FlowPlan) -> dict[str, str]:
    """The source connector's config as its worker resolves it. Raises `ConfigError`."""
    worker = config.worker_config(plan.source, plan.target)
    return ConfigProviders.from_properties(worker).resolve(plan.connectors[SOURCE])


def check_source(config: MirrorMakerConfig, plan: FlowPlan) -> None:
    """Raise `ConfigError` for what is wrong with a flow's source connector beyond single values,
    such as patterns that are none."""
    if not mirrors(plan):
        return
    props = resolved_source_config(config, plan)
    for problem in validate_source(props):
        raise ConfigError(f"{plan.name}: {problem.message}", key=problem.key)


def loops_of(config: MirrorMakerConfig, plans: Sequence[FlowPlan]) -> list[Loop]:
    """Circles among the flows that mirror. Raises `ConfigError` for a wrong policy or filter."""
    return find_loops(
        {
            (plan.source, plan.target): resolved_source_config(config, plan)
            for plan in plans
            if mirrors(plan)
        }
    )


def mirrors(plan: FlowPlan) -> bool:
    """Whether the flow copies topics; otherwise it only sends heartbeats."""
    return plan.connectors[SOURCE].get("enabled", "true").strip().lower() == "true"


class MirrorMaker:
    """All flows of a config. `start` and `stop` are its owner's, once each; the rest may be called
    from any thread."""

    def __init__(self, config: MirrorMakerConfig, clusters: Sequence[str] | None = None) -> None:
        """Nothing runs yet. Raises `ConfigError`, also where flows that keep topic names would
        carry every record round in a circle."""
        config.validate(clusters)
        plans = plan_flows(config, clusters)
        for plan in plans:
            check_source(config, plan)
        for loop in loops_of(config, plans):
            if loop.certain:
                raise ConfigError(str(loop), key="replication.policy.class")
            log.warning("%s", loop)
        self.metrics = MetricRegistry()
        self._config = config
        self._plugins = PluginRegistry()
        mirror_plugins.register(self._plugins)
        self._flows = [
            MirrorFlow(plan, partial(self._make_herder, plan), partial(self._probe, plan))
            for plan in plans
        ]

    def start(self) -> None:
        """Begin to start all flows; returns at once."""
        self._say_what_is_not_there_yet()
        for flow in self._flows:
            flow.start()

    def stop(self, deadline: Deadline) -> bool:
        """Stop all flows at the same time, final offsets stored. False: not all ended in time;
        the log says what is left behind."""
        outcomes: dict[str, bool] = {}

        def stop(flow: MirrorFlow) -> None:
            outcomes[flow.plan.name] = flow.stop(deadline)

        threads = [
            threading.Thread(target=stop, args=(flow,), name=f"stop {flow.plan.name}", daemon=True)
            for flow in self._flows
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(deadline.remaining())
        late = [flow.plan.name for flow in self._flows if not outcomes.get(flow.plan.name)]
        if late:
            log.error("Not stopped in time: %s", ", ".join(late))
        return not late

    def statuses(self) -> Mapping[str, Sequence[ConnectorStatus]]:
        """The connectors' statuses by flow (`A->B`)."""
        return {flow.plan.name: flow.statuses() for flow in self._flows}

    def failures(self) -> dict[str, str]:
        """Flows that will never run with this config, and why."""
        return {
            flow.plan.name: flow.error or "failed"
            for flow in self._flows
            if flow.state is FlowState.FAILED
        }

    def all_failed(self) -> bool:
        """Whether no flow is left that runs or may run."""
        return len(self.failures()) == len(self._flows)

    def _worker_config(self, plan: FlowPlan) -> WorkerConfig:
        return WorkerConfig.from_properties(self._config.worker_config(plan.source, plan.target))

    def _probe(self, plan: FlowPlan) -> None:
        """Raise, saying so, where the target is not reached or has too few brokers for the topic
        of source offsets."""
        worker = self._worker_config(plan)
        props = worker.own_client_properties("probe")
        topic, factor = worker.offset_storage_topic, worker.offset_storage_replication_factor
        admin = Admin(props)
        try:
            contact(admin, plan.target, props, CONTACT_TIMEOUT_S)
            if factor <= 1 or topic in admin.list_topics(CONTACT_TIMEOUT_S):
                return
            brokers = admin.broker_count(CONTACT_TIMEOUT_S)
        finally:
            admin.close()
        if brokers < factor:
            raise RetriableError(
                f"Topic {topic} is to have {factor} replicas, and cluster {plan.target} has "
                f"{brokers} broker{'' if brokers == 1 else 's'} now; start more brokers, or set "
                f"offset.storage.replication.factor={brokers}"
            )

    def _make_herder(self, plan: FlowPlan) -> Herder:
        worker = Worker(
            self._worker_config(plan),
            self._plugins,
            self.metrics.scoped({"flow": plan.name}),
            worker_id=f"{socket.getfqdn()}/{plan.name}/{uuid.uuid4()}",
        )
        return StandaloneHerder(worker, name=f"herder-{plan.name}")

    def _say_what_is_not_there_yet(self) -> None:
        for flow in self._flows:
            if not mirrors(flow.plan):
                log.info("%s is not enabled: it only sends heartbeats", flow.plan.name)
                continue
            worker = self._config.worker_config(flow.plan.source, flow.plan.target)
            for sentence in not_there_yet(flow.plan.connectors[SOURCE], worker):
                log.warning("%s: %s", flow.plan.name, sentence)


def not_there_yet(source_config: Mapping[str, str], worker: Mapping[str, str]) -> list[str]:
    """What this config asks for, or gets by default from MirrorMaker 2, and this version does not
    do; one sentence each."""

    def is_on(key: str) -> bool:
        return source_config.get(key, "true").strip().lower() == "true"

    sentences = []
    if is_on("emit.checkpoints.enabled"):
        sentences.append(
            "consumer group offsets are not translated by this version: no checkpoints are written"
        )
    if is_on("sync.topic.configs.enabled"):
        sentences.append(
            "topic configs are copied when a topic is created; later changes are not, in this "
            "version"
        )
    if is_on("sync.topic.acls.enabled"):
        sentences.append("topic ACLs are not copied by this version")
    if worker.get("exactly.once.source.support", "disabled").strip().lower() != "disabled":
        sentences.append(
            "copying is at least once: exactly.once.source.support has no effect in this version"
        )
    if source_config.get("transforms", "").strip():
        sentences.append(
            "records are moved in batches and not transformed: a connector with transforms is "
            "refused; remove transforms"
        )
    return sentences
