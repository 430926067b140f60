"""What the attributes of Kafka Connect's own groups mean; `catalogue` gives them out.

"Lately" is the last 30 to 60 seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CONNECT_TEXTS"]

_TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")


def _startups(things: str, thing: str) -> dict[str, str]:
    return {
        f"{thing}-startup-attempts-total": f"Starts of {things} that this worker has tried.",
        f"{thing}-startup-success-total": f"Starts of {things} that succeeded.",
        f"{thing}-startup-failure-total": f"Starts of {things} that failed.",
        f"{thing}-startup-success-percentage": f"Share of starts of {things} lately that "
        "succeeded, 0 to 1.",
        f"{thing}-startup-failure-percentage": f"Share of starts of {things} lately that failed, "
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
    "join-total": "Joins of the worker group.",
    "join-rate": "Joins of the worker group per second, lately.",
    "join-time-max": "Longest wait for a join's answer lately, in milliseconds.",
    "join-time-avg": "Mean wait for a join's answer lately, in milliseconds.",
    "sync-total": "Synchronisations of the worker group.",
    "sync-rate": "Synchronisations of the worker group per second, lately.",
    "sync-time-max": "Longest wait for a synchronisation's answer lately, in milliseconds.",
    "sync-time-avg": "Mean wait for a synchronisation's answer lately, in milliseconds.",
    "heartbeat-total": "Heartbeats that the group's coordinator answered.",
    "heartbeat-rate": "Heartbeats that the group's coordinator answered per second, lately.",
    "heartbeat-response-time-max": "Longest wait for a heartbeat's answer lately, in milliseconds.",
    "last-heartbeat-seconds-ago": "Seconds since the last heartbeat was sent; -1 before the first.",
    "rebalance-total": "Times that this member got an assignment.",
    "rebalance-rate-per-hour": "Times that this member got an assignment, per hour, lately.",
    "rebalance-latency-max": "Longest time from joining to an assignment lately, in milliseconds.",
    "rebalance-latency-avg": "Mean time from joining to an assignment lately, in milliseconds.",
    "rebalance-latency-total": "All time from joining to assignments, in milliseconds.",
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
    "offset-commit-max-time-ms": "Greatest time to store the task's offsets lately, in "
    "milliseconds.",
    "offset-commit-failure-percentage": "Share of offset commits lately that failed, 0 to 1.",
    "offset-commit-success-percentage": "Share of offset commits lately that succeeded, 0 to 1.",
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
    "poll-batch-max-time-ms": "Longest poll that brought records lately, in milliseconds.",
    "poll-batch-avg-time-ms": "Mean duration of polls that brought records lately, in "
    "milliseconds.",
    "source-record-active-count": "Records read, but not acknowledged by Kafka yet.",
    "source-record-active-count-max": "Most records read and not acknowledged lately.",
    "source-record-active-count-avg": "Mean of records read and not acknowledged lately.",
    "transaction-size-min": "Records in the smallest transaction lately.",
    "transaction-size-max": "Records in the largest transaction lately.",
    "transaction-size-avg": "Mean records in a transaction lately.",
}

_SINK_TASK = {
    "sink-record-read-total": "Records read from Kafka for the task.",
    "sink-record-read-rate": "Records read from Kafka for the task per second, lately.",
    "sink-record-send-total": "Records the task took, after transformations.",
    "sink-record-send-rate": "Records the task took per second, lately.",
    "sink-record-active-count": "Records read whose offsets are not committed yet.",
    "sink-record-active-count-max": "Most records read and not committed lately.",
    "sink-record-active-count-avg": "Mean of records read and not committed lately.",
    "partition-count": "Topic partitions the task reads.",
    "put-batch-max-time-ms": "Longest time the task took for a batch lately, in milliseconds.",
    "put-batch-avg-time-ms": "Mean time the task took for a batch lately, in milliseconds.",
    "offset-commit-seq-no": "Number of the newest offset commit.",
    "offset-commit-completion-total": "Offset commits that ended.",
    "offset-commit-completion-rate": "Offset commits that ended per second, lately.",
    "offset-commit-skip-total": "Answers to offset commits that came too late to matter.",
    "offset-commit-skip-rate": "Late answers to offset commits per second, lately.",
}

CONNECT_TEXTS: Mapping[str, Mapping[str, str]] = {
    "app-info": {
        "version": "The release of Apache Kafka whose behaviour this is, as a label.",
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
"""By group, then attribute."""
