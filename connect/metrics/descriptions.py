"""Descriptions of the attributes of Kafka Connect's own groups, for `catalogue`.

"Lately" is the last 30 to 60 seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CONNECT_TEXTS"]

_TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")


def _startups(things: str, thing: str) -> dict[str, str]:
    return {
        f"{thing}-startup-attempts-total": f"Attempts of this worker to start {things}.",
        f"{thing}-startup-success-total": f"Starts of {things} that succeeded.",
        f"{thing}-startup-failure-total": f"Starts of {things} that failed.",
        f"{thing}-startup-success-percentage": f"Share of {thing} starts that succeeded lately, "
        "0 to 1.",
        f"{thing}-startup-failure-percentage": f"Share of {thing} starts that failed lately, "
        "0 to 1.",
    }


_WORKER = {
    "connector-count": "Connectors on this worker.",
    "task-count": "Tasks on this worker.",
    **_startups("connectors", "connector"),
    **_startups("tasks", "task"),
    "connector-total-task-count": "Tasks of the connector on this worker.",
    **{
        f"connector-{state}-task-count": f"{state.capitalize()} tasks of the connector on this "
        "worker."
        for state in _TASK_STATES
    },
}

_REBALANCE = {
    "leader-name": "The URL of the group's leader, as a label.",
    "connect-protocol": "The group protocol in use, as a label.",
    "rebalancing": "Whether this worker is rebalancing: 1 or 0.",
    "epoch": "The generation of the worker group.",
    "completed-rebalances-total": "Rebalances this worker completed.",
    "rebalance-max-time-ms": "Longest rebalance lately, in milliseconds.",
    "rebalance-avg-time-ms": "Mean duration of rebalances lately, in milliseconds.",
    "time-since-last-rebalance-ms": "Time since the last completed rebalance, in milliseconds.",
}

_COORDINATOR = {
    "assigned-connectors": "Connectors assigned to this worker.",
    "assigned-tasks": "Tasks assigned to this worker.",
    "join-total": "JoinGroup requests.",
    "join-rate": "JoinGroup requests per second, lately.",
    "join-time-max": "Maximum latency of a JoinGroup response lately, in milliseconds.",
    "join-time-avg": "Mean latency of JoinGroup responses lately, in milliseconds.",
    "sync-total": "SyncGroup requests.",
    "sync-rate": "SyncGroup requests per second, lately.",
    "sync-time-max": "Maximum latency of a SyncGroup response lately, in milliseconds.",
    "sync-time-avg": "Mean latency of SyncGroup responses lately, in milliseconds.",
    "heartbeat-total": "Heartbeats answered by the group's coordinator.",
    "heartbeat-rate": "Heartbeats answered by the group's coordinator per second, lately.",
    "heartbeat-response-time-max": "Maximum latency of a heartbeat response lately, in ms.",
    "last-heartbeat-seconds-ago": "Seconds since the last heartbeat was sent; -1 before the first.",
    "rebalance-total": "Assignments that this member received.",
    "rebalance-rate-per-hour": "Assignments that this member received per hour, lately.",
    "rebalance-latency-max": "Longest time from joining to an assignment lately, in milliseconds.",
    "rebalance-latency-avg": "Mean time from joining to an assignment lately, in milliseconds.",
    "rebalance-latency-total": "Total time from joining to assignments, in milliseconds.",
    "last-rebalance-seconds-ago": "Seconds since the last assignment; -1 before the first.",
    "failed-rebalance-total": "Attempts to join that ended without an assignment.",
    "failed-rebalance-rate-per-hour": "Attempts to join without an assignment, per hour, lately.",
}

_CONNECTOR = {
    "connector-class": "The connector's class, as a label.",
    "connector-type": "Whether it is a source or a sink, as a label.",
    "connector-version": "The connector's version, as a label.",
}


def _plugin(what: str, name: str) -> dict[str, str]:
    return {
        f"{name}-class": f"The {what}'s class, as a label.",
        f"{name}-version": f"The {what}'s version, as a label.",
    }


_TASK = {
    "status": "The task's state, as a label.",
    "running-ratio": "Share of time that the task spent running, 0 to 1.",
    "pause-ratio": "Share of time that the task spent paused, 0 to 1.",
    "offset-commit-avg-time-ms": "Mean time to store the task's offsets lately, in milliseconds.",
    "offset-commit-max-time-ms": "Longest time to store the task's offsets lately, in "
    "milliseconds.",
    "offset-commit-failure-percentage": "Share of offset commits that failed lately, 0 to 1.",
    "offset-commit-success-percentage": "Share of offset commits that succeeded lately, 0 to 1.",
    "batch-size-max": "Records in the largest batch lately.",
    "batch-size-avg": "Mean records in a batch lately.",
    **_CONNECTOR,
    **_plugin("task", "task"),
    **_plugin("key converter", "key-converter"),
    **_plugin("value converter", "value-converter"),
    **_plugin("header converter", "header-converter"),
}

_SOURCE_TASK = {
    "source-record-poll-total": "Records the task read.",
    "source-record-poll-rate": "Records the task read per second, lately.",
    "source-record-write-total": "Records of the task that Kafka acknowledged.",
    "source-record-write-rate": "Records of the task that Kafka acknowledged per second, lately.",
    "poll-batch-max-time-ms": "Longest poll that returned records lately, in milliseconds.",
    "poll-batch-avg-time-ms": "Mean duration of polls that returned records lately, in "
    "milliseconds.",
    "source-record-active-count": "Records polled but not acknowledged yet.",
    "source-record-active-count-max": "Maximum of records polled but not acknowledged lately.",
    "source-record-active-count-avg": "Mean of records polled but not acknowledged lately.",
    "transaction-size-min": "Records in the smallest transaction lately.",
    "transaction-size-max": "Records in the largest transaction lately.",
    "transaction-size-avg": "Mean records in a transaction lately.",
}

_SINK_TASK = {
    "sink-record-read-total": "Records read from Kafka for the task.",
    "sink-record-read-rate": "Records read from Kafka for the task per second, lately.",
    "sink-record-send-total": "Records delivered to the task, after transformations.",
    "sink-record-send-rate": "Records delivered to the task per second, lately.",
    "sink-record-active-count": "Records read whose offsets are not committed yet.",
    "sink-record-active-count-max": "Maximum of records read but not committed lately.",
    "sink-record-active-count-avg": "Mean of records read but not committed lately.",
    "partition-count": "Topic partitions the task reads.",
    "put-batch-max-time-ms": "Longest put of a batch lately, in milliseconds.",
    "put-batch-avg-time-ms": "Mean duration of a put of a batch lately, in milliseconds.",
    "offset-commit-seq-no": "Sequence number of the newest offset commit.",
    "offset-commit-completion-total": "Completed offset commits.",
    "offset-commit-completion-rate": "Completed offset commits per second, lately.",
    "offset-commit-skip-total": "Responses to offset commits that arrived too late.",
    "offset-commit-skip-rate": "Late responses to offset commits per second, lately.",
}

CONNECT_TEXTS: Mapping[str, Mapping[str, str]] = {
    "app-info": {
        "version": "The Apache Kafka release whose behaviour this program follows, as a label.",
        "start-time-ms": "When the worker was started, in milliseconds since 1970.",
    },
    "connect-worker-metrics": _WORKER,
    "connect-worker-rebalance-metrics": _REBALANCE,
    "connect-coordinator-metrics": _COORDINATOR,
    "connector-metrics": {"status": "The connector's state, as a label.", **_CONNECTOR},
    "connector-task-metrics": _TASK,
    "connector-transform-metrics": _plugin("transformation", "transform"),
    "connector-predicate-metrics": _plugin("predicate", "predicate"),
    "source-task-metrics": _SOURCE_TASK,
    "sink-task-metrics": _SINK_TASK,
}
"""Descriptions by group, then attribute."""
