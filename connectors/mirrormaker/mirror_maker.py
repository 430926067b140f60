"""Dedicated mode: every flow of an mm2.properties file in one process, each with its own worker.

One worker runs per ordered pair of clusters that mirrors or at least sends heartbeats. It connects
to the target cluster and forms a group with the workers that other processes, including Java's, run
for this flow. Flows start, fail and stop independently.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

from connect.clients.librdkafka.admin import Admin
from connect.clients.rest_client import RestClient
from connect.clock import Deadline
from connect.config.otlp_keys import OTLP_ENDPOINT
from connect.config.rest_access_keys import ALLOWED_HOSTS
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError, RetriableError
from connect.log_fields import OwnedThread, with_log_fields
from connect.metrics.process_metrics import register_process_metrics
from connect.metrics.registry import MetricRegistry
from connect.runtime.connector_status import ConnectorStatus
from connect.runtime.distributed.factory import distributed_herder
from connect.runtime.errors import NotFound
from connect.runtime.herder import Herder
from connect.runtime.plugins.permissions import EVERYTHING
from connectors.mirror.topics.clusters import CONTACT_TIMEOUT_S, contact
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import (
    check_source,
    flow_plugins,
    loops_of,
    mirrors,
    plan_flows,
    resolved_source_config,
    worker_topics,
)
from connectors.mirrormaker.mirror_flow import FlowHerder, FlowPlan, FlowState, MirrorFlow
from connectors.mirrormaker.spark_at_launch import start_spark

__all__ = ["InternalRest", "MirrorMaker"]

log = logging.getLogger(__name__)

WITHOUT_REST = "NOTUSED"
"""The URL that MirrorMaker 2's workers advertise when internal REST is disabled."""


def _of_process(key: str, *, internal_rest: bool) -> bool:
    """Whether a change of this key concerns the process, not single flows."""
    whole = ("metrics.listener", ALLOWED_HOSTS, "dedicated.mode.enable.internal.rest")
    if key in (*whole, OTLP_ENDPOINT.name):
        return True
    prefixes = ("listeners", "rest.advertised.", "access.control.", "response.http.")
    return internal_rest and key.startswith(prefixes)


@dataclass(frozen=True, slots=True)
class InternalRest:
    """The endpoint at which other processes with the same flows reach this one. `url` ends with a
    slash; `address` is its host and port."""

    url: str
    address: str
    client: RestClient


class MirrorMaker:
    """All flows of a config. The owner calls `start` and `stop` once each; any thread may call the
    rest."""

    def __init__(
        self,
        config: MirrorMakerConfig,
        clusters: Sequence[str] | None = None,
        rest: InternalRest | None = None,
    ) -> None:
        """Create the flows without starting them.

        `rest`: the endpoint for other processes with these flows; None if there is none. Raises
        `ConfigError`, also if flows that keep topic names would replicate records in a loop.
        """
        self._clusters = clusters
        plans = self._checked_plans(config)
        self.metrics = MetricRegistry()
        register_process_metrics(self.metrics)
        self._config = config
        self._rest = rest
        self._plugins = flow_plugins(config, plans)
        self._workers: dict[str, Mapping[str, str]] = {}
        """The properties of each flow's worker, with what config providers said at its start."""
        self._flows = {plan.name: self._make_flow(plan) for plan in plans}

    def _checked_plans(self, config: MirrorMakerConfig) -> list[FlowPlan]:
        config.validate(self._clusters)
        plans = plan_flows(config, self._clusters)
        flow_plugins(config, plans)
        for plan in plans:
            check_source(config, plan)
        for loop in loops_of(config, plans):
            if loop.certain:
                raise ConfigError(str(loop), key="replication.policy.class")
            log.warning("%s", loop)
        return plans

    def _make_flow(self, plan: FlowPlan) -> MirrorFlow:
        return MirrorFlow(
            plan,
            partial(self._make_herder, plan),
            partial(self._probe, plan),
            self.metrics.scoped({"flow": plan.name}),
        )

    def renew(self, config: MirrorMakerConfig, deadline: Deadline) -> None:
        """Apply another config while flows run. Flows that are the same in it go on.

        A flow whose connectors changed gets their new configs. One whose worker changed is stopped
        and started, within `deadline`. Called by the thread that calls `start` and `stop`. Raises
        `ConfigError` for a wrong config and for changes that need a restart, and then applies
        none of it.
        """
        changed = self._config.changed(config)
        late = [key for key in changed if _of_process(key, internal_rest=self._rest is not None)]
        if late:
            raise ConfigError(
                f"Restart to apply {', '.join(late)}. Other keys can change while flows run, but "
                "not in the same change of the file",
                key=late[0],
            )
        plans = {plan.name: plan for plan in self._checked_plans(config)}
        ended = [flow for flow in self._flows.values() if self._ends(flow, plans, config)]
        kept = {flow.plan.name: flow for flow in self._flows.values() if flow not in ended}
        self._config = config
        for flow in kept.values():
            if flow.plan != plans[flow.plan.name]:
                flow.renew(plans[flow.plan.name])
        self._stop(ended, deadline)
        # One assignment, because other threads read it.
        self._flows = {
            name: kept.get(name) or self._make_flow(plan) for name, plan in plans.items()
        }
        for name, flow in self._flows.items():
            if name not in kept:
                flow.start()
        self._log_renewed(changed, ended, kept)

    def _ends(
        self, flow: MirrorFlow, plans: Mapping[str, FlowPlan], config: MirrorMakerConfig
    ) -> bool:
        """Whether a running flow must stop: it is gone, its worker changed, or it has failed."""
        plan = plans.get(flow.plan.name)
        if plan is None or flow.state is FlowState.FAILED:
            return True
        pair = (plan.source, plan.target)
        started = self._workers.get(plan.name) or self._config.worker_config(*pair)
        return started != config.worker_config(*pair)

    def _log_renewed(
        self, changed: Sequence[str], ended: Sequence[MirrorFlow], kept: Mapping[str, MirrorFlow]
    ) -> None:
        stopped = {flow.plan.name for flow in ended}
        others = sorted((stopped | self._flows.keys()) - kept.keys())
        for name in others:
            what = "restarted" if name in stopped else "added"
            log.info("%s: %s", name, what if name in self._flows else "removed")
        if changed:
            log.info("Changed without a restart: %s", ", ".join(changed))
        elif not others:
            log.info("The file was read again: nothing has changed")

    def start(self) -> None:
        """Begin to start all flows, and return at once."""
        self._say_what_is_not_enabled()
        for flow in self._flows.values():
            flow.start()
        plans = [flow.plan for flow in self._flows.values() if mirrors(flow.plan)]
        start_spark((each.name, resolved_source_config(self._config, each)) for each in plans)

    def stop(self, deadline: Deadline) -> bool:
        """Stop all flows in parallel and store the final offsets. Returns False if some did not
        stop in time; the log names them."""
        return self._stop(list(self._flows.values()), deadline)

    def _stop(self, flows: Sequence[MirrorFlow], deadline: Deadline) -> bool:
        outcomes: dict[str, bool] = {}

        def stop(flow: MirrorFlow) -> None:
            outcomes[flow.plan.name] = flow.stop(deadline)

        threads = []
        for flow in flows:
            with with_log_fields(flow=flow.plan.name):
                threads.append(OwnedThread(partial(stop, flow), f"stop {flow.plan.name}"))
            threads[-1].start()
        for thread in threads:
            thread.join(deadline.remaining())
        late = [flow.plan.name for flow in flows if not outcomes.get(flow.plan.name)]
        if late:
            log.error(
                "Not stopped in time; records since their last stored offsets are copied again: %s",
                ", ".join(late),
            )
        return not late

    def herder(self, source: str, target: str) -> Herder | None:
        """Return the herder of this process's worker for a flow; None if there is none. Raises
        `NotFound` for a flow that this process does not have."""
        for flow in self._flows.values():
            if (flow.plan.source, flow.plan.target) == (source, target):
                return flow.herder
        raise NotFound(f"This process has no flow {source}->{target}")

    def statuses(self) -> Mapping[str, Sequence[ConnectorStatus]]:
        """Return the connectors' statuses by flow (`A->B`)."""
        return {flow.plan.name: flow.statuses() for flow in self._flows.values()}

    def group_status(self, connector: str) -> Mapping[str, Callable[[], ConnectorStatus]]:
        """Return, by flow, a function that asks all workers of the flow for the status of one
        connector. See `MirrorFlow.group_status`."""
        return {name: partial(flow.group_status, connector) for name, flow in self._flows.items()}

    def source_configs(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """Return the resolved properties of each flow's source connector, with secrets, by the
        flow's aliases; empty if they cannot be resolved."""
        return {
            (flow.plan.source, flow.plan.target): self._resolved_for_pages(flow.plan)
            for flow in self._flows.values()
        }

    def _resolved_for_pages(self, plan: FlowPlan) -> Mapping[str, str]:
        try:
            return resolved_source_config(self._config, plan)
        except ConfigError as error:
            log.debug("The properties of %s cannot be resolved: %s", plan.name, error)
            return {}

    def not_ready(self) -> dict[str, str]:
        """Return why flows do not run in this process yet, by flow; empty if all do."""
        reasons = {flow.plan.name: flow.not_ready() for flow in self._flows.values()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def failures(self) -> dict[str, str]:
        """Return the flows that can never run with this config, and the reasons."""
        return {
            flow.plan.name: flow.error or "failed"
            for flow in self._flows.values()
            if flow.state is FlowState.FAILED
        }

    def all_failed(self) -> bool:
        """Whether every flow has failed permanently."""
        return len(self.failures()) == len(self._flows)

    def _worker_config(self, plan: FlowPlan) -> WorkerConfig:
        return WorkerConfig.from_properties(self._config.worker_config(plan.source, plan.target))

    def _probe(self, plan: FlowPlan) -> None:
        """Raise if the target is unreachable or has too few brokers for the topics of the flow's
        workers."""
        worker = self._worker_config(plan)
        props = worker.own_client_properties("probe")
        topics = worker_topics(worker)
        with closing(Admin(props)) as admin:
            contact(admin, plan.target, props, CONTACT_TIMEOUT_S)
            if all(topic.replication_factor <= 1 for topic in topics.values()):
                return
            existing = admin.list_topics(CONTACT_TIMEOUT_S)
            brokers = admin.broker_count(CONTACT_TIMEOUT_S)
        lacking = {
            f"{family}.storage.replication.factor={brokers}": topic.name
            for family, topic in topics.items()
            if topic.name not in existing and topic.replication_factor > brokers
        }
        if lacking:
            raise RetriableError(
                f"Cluster {plan.target} has {brokers} broker{'' if brokers == 1 else 's'} now, "
                f"but the replication factor of {', '.join(lacking.values())} is higher. Start "
                f"more brokers, or lower {', '.join(lacking)}"
            )

    def _make_herder(self, plan: FlowPlan, on_leading: Callable[[], None]) -> FlowHerder:
        rest = self._rest
        worker = self._config.worker_config(plan.source, plan.target)
        self._workers[plan.name] = worker
        return distributed_herder(
            worker,
            self._plugins,
            self.metrics.scoped({"flow": plan.name}),
            worker_id=_worker_id(plan.name, rest),
            url=WITHOUT_REST if rest is None else rest.url,
            client=None if rest is None else rest.client,
            on_leading=on_leading,
            permissions=EVERYTHING,
            internal_path="".join(
                f"/{quote(alias, safe='')}" for alias in (plan.source, plan.target)
            ),
        )

    def _say_what_is_not_enabled(self) -> None:
        for flow in self._flows.values():
            if not mirrors(flow.plan):
                log.info("%s is not enabled: it only sends heartbeats", flow.plan.name)


def _worker_id(flow: str, rest: InternalRest | None) -> str:
    """Return a worker ID in MirrorMaker 2's form. Other workers show it."""
    if rest is not None:
        return f"{rest.address}/{flow}"
    return f"{socket.getfqdn()}/{flow}/{uuid.uuid4()}"
