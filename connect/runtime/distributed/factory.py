"""Create a distributed herder with its worker and stores from a worker's properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from connect.clients.rest_client import RestClient
from connect.clients.transactions.remedies import TRANSACTION_TIMEOUT
from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.definition import ConfigProblem
from connect.config.worker import WorkerConfig
from connect.metrics.registry import MetricRegistry
from connect.plugin import Connector
from connect.runtime.distributed.group_config import DistributedConfig, ExactlyOnceSupport
from connect.runtime.distributed.herder import DistributedHerder
from connect.runtime.distributed.preflight import exactly_once_problems
from connect.runtime.plugins.permissions import Permissions
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.validation.validator import Preflight
from connect.runtime.worker import Worker
from connect.storage.kafka_config_store import KafkaConfigStore
from connect.storage.status_store import KafkaStatusStore

__all__ = ["distributed_herder"]

_OWN_GROUP = "consumer.override.group.id"
_NAMED = "sink connector named"


def distributed_herder(
    props: Mapping[str, str],
    plugins: PluginRegistry,
    metrics: MetricRegistry,
    *,
    worker_id: str,
    url: str,
    client: RestClient | None,
    on_leading: Callable[[], None] = lambda: None,
    internal_path: str = "",
    permissions: Permissions | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> DistributedHerder:
    """Return a herder, not started.

    `props` are the worker's, with config providers resolved. `url` is where other workers reach
    this one. With `client` None, workers do not send requests to each other. For `on_leading` and
    `internal_path` see `DistributedHerder`, for `permissions` `Worker`.

    Raises `ConfigError`.
    """
    config = DistributedConfig.from_properties(props)
    exactly_once = config.exactly_once is ExactlyOnceSupport.ENABLED
    worker = Worker(
        WorkerConfig.from_properties(props),
        plugins,
        metrics,
        clock,
        worker_id=worker_id,
        exactly_once=exactly_once,
        permissions=permissions,
    )
    configs = KafkaConfigStore(
        config.config_topic,
        _leader_properties(worker.config.own_client_properties("configs"), props),
        transactional_id=(
            f"connect-cluster-{config.group_id}" if config.exactly_once.fences_leaders else None
        ),
        read_committed=exactly_once,
        transform=lambda connector, raw: worker.resolved(raw),
        clock=clock,
    )
    statuses = KafkaStatusStore(
        config.status_topic, worker.config.own_client_properties("statuses"), clock=clock
    )
    return DistributedHerder(
        config,
        worker,
        configs,
        statuses,
        url=url,
        client=client,
        preflight=_preflight(config.group_id, exactly_once=exactly_once),
        on_leading=on_leading,
        internal_path=internal_path,
    )


def _leader_properties(own: Mapping[str, str], props: Mapping[str, str]) -> Mapping[str, str]:
    """Return client properties for the config topic.

    If brokers limit transactions, users lower the producers' transaction timeout, and the leader's
    producer follows that. As in Java, the key without a prefix applies only to the leader's
    producer.
    """
    timeout = props.get(f"producer.{TRANSACTION_TIMEOUT}")
    return own if timeout is None else {TRANSACTION_TIMEOUT: timeout, **own}


def _preflight(group_id: str, *, exactly_once: bool) -> Preflight:
    """Return the checks between connectors and the group.

    A sink's consumers must not join the workers' group, and a source must support the exactly-once
    features that its config requires.
    """

    def check(connector: type[Connector], props: Mapping[str, str]) -> Sequence[ConfigProblem]:
        if connector.connector_type() != "sink":
            return exactly_once_problems(connector, props, enabled=exactly_once)
        own = props.get(_OWN_GROUP)
        name = props.get("name", "")
        if (f"connect-{name}" if own is None else own) != group_id:
            return ()
        key, named = (_OWN_GROUP, own) if own is not None else ("name", f"for {_NAMED} {name}")
        text = f"Consumer group {named} conflicts with Connect worker group {group_id}"
        return (ConfigProblem(key, text),)

    return check
