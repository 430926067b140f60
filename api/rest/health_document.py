"""Builds the body of dedicated mode's `/health` and of workers' `/health?verbose=true`: the health
of every connector, task and partition, and the engine that computes each periodic job.

A RUNNING task is not healthy if one of its partitions makes no progress or reports a problem. The
task's state alone would not show that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from api.dashboard.clocks import clock_warning
from connect.metrics.registry import MetricSample
from connect.plugin import PartitionHealth
from connect.protocol.compiled import native
from connect.runtime.connector_status import ConnectorStatus
from connect.runtime.states import Status

__all__ = ["health_document"]


def health_document(
    flows: Mapping[str, Sequence[ConnectorStatus]],
    jobs: Iterable[MetricSample] = (),
    *,
    compiled: bool = native is not None,
) -> dict[str, object]:
    """Return the body of `/health`. `flows`: the connectors of each flow, `a->b`. `jobs`: the
    metrics of the process's periodic jobs (`SPARK_JOB_GROUP`). `compiled`: whether the compiled
    part is installed."""
    ill = [
        f"{flow} {connector.name}".strip()
        for flow, connectors in flows.items()
        for connector in connectors
        if not connector.is_healthy
    ]
    return {
        "status": "unhealthy" if ill else "healthy",
        "message": f"not healthy: {', '.join(ill)}" if ill else _well(flows),
        "connectors": [
            {**({"flow": flow} if flow else {}), **_connector(connector)}
            for flow, connectors in flows.items()
            for connector in connectors
        ],
        "jobs": [
            {
                "name": job.tags["job"],
                "engine": job.values.get("engine") or None,
                "status": job.values["status"],
            }
            for job in jobs
        ],
        "compiled_part": compiled,
    }


def _well(flows: Mapping[str, Sequence[ConnectorStatus]]) -> str:
    """Return the message of a healthy mirror. It includes rate limits that delay records, because
    they explain lag, a clock that is wrong, because lags are then wrong, too, and losses."""
    partitions = [
        partition
        for connectors in flows.values()
        for connector in connectors
        for task in connector.tasks
        for partition in task.partitions
    ]
    limits = Counter(
        limit
        for partition in partitions
        if (limit := partition.details.get("limited_by")) is not None
    )
    waiting = [
        f"{count} partition{' waits' if count == 1 else 's wait'} because of {limit}"
        for limit, count in sorted(limits.items(), key=str)
    ]
    found = ["all connectors and tasks are healthy", *waiting]
    if clock := clock_warning(partitions):
        found.append(clock)
    if losing := sum(bool(partition.details.get("lost_lately")) for partition in partitions):
        found.append(
            f"records of {losing} partition{'s' if losing > 1 else ''} were lost in the last 24"
            " hours: connect-mirror history has the offsets"
        )
    return "; ".join(found)


def _connector(connector: ConnectorStatus) -> dict[str, object]:
    return {
        "name": connector.name,
        **_status(connector.status),
        "healthy": connector.is_healthy,
        "tasks": [
            {
                "id": task.number,
                **_status(task.status),
                "healthy": task.is_healthy,
                "partitions": [_partition(partition) for partition in task.partitions],
            }
            for task in connector.tasks
        ],
    }


def _status(status: Status) -> dict[str, object]:
    """Return state, worker and, after a failure, the trace, as in Connect's REST API."""
    trace = {} if status.trace is None else {"trace": status.trace}
    return {"state": status.state.value, "worker_id": status.worker_id, **trace}


def _partition(partition: PartitionHealth) -> dict[str, object]:
    return {
        "name": partition.name,
        "lag_records": partition.lag_records,
        "lag_ms": partition.lag_ms,
        "error": partition.error,
        "details": {**partition.details, "time_to_loss_ms": partition.time_to_loss_ms},
    }
