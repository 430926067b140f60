"""What each attribute means, for the HELP lines of the /metrics page and for the docs.

Groups and attributes have the names that Apache Kafka gives its MBeans; those that only we have
say so in their text.
"""

from __future__ import annotations

__all__ = ["CONSUMER_FETCH_GROUP", "MIRROR_CHECKPOINT_GROUP", "MIRROR_SOURCE_GROUP", "describe"]

MIRROR_SOURCE_GROUP = "MirrorSourceConnector"
MIRROR_CHECKPOINT_GROUP = "MirrorCheckpointConnector"
CONSUMER_FETCH_GROUP = "consumer-fetch-manager-metrics"

_MIRROR_SOURCE = {
    "record-count": "Records acknowledged by the target since the task started.",
    "record-rate": "Records acknowledged per second, over the last 30 to 60 seconds.",
    "byte-count": "Bytes read from the source since the task started.",
    "byte-rate": "Bytes read per second, over the last 30 to 60 seconds.",
    "record-age-ms": "Age of the newest record when it was last read, in milliseconds.",
    "record-age-ms-min": "Least age of records when read, in milliseconds.",
    "record-age-ms-max": "Greatest age of records when read, in milliseconds.",
    "record-age-ms-avg": "Mean age of records when read, in milliseconds.",
    "replication-latency-ms": "Time from a record's timestamp to the target's acknowledgement, "
    "last seen, in milliseconds.",
    "replication-latency-ms-min": "Least replication latency, in milliseconds.",
    "replication-latency-ms-max": "Greatest replication latency, in milliseconds.",
    "replication-latency-ms-avg": "Mean replication latency, in milliseconds.",
    "record-lag": "Records in the source partition that the target has not acknowledged. "
    "Not in Java's MirrorMaker 2.",
    "time-lag-ms": "Age of the newest acknowledged record while newer ones wait, 0 when none "
    "waits, in milliseconds. Not in Java's MirrorMaker 2.",
    "shallow-record-count": "Records forwarded in batches as bytes. Not in Java's MirrorMaker 2.",
    "shallow-batch-count": "Batches forwarded as bytes. Not in Java's MirrorMaker 2.",
    "record-level-record-count": "Records that had to be batched anew. "
    "Not in Java's MirrorMaker 2.",
    "record-level-batch-count": "Batches made of records that had to be batched anew. "
    "Not in Java's MirrorMaker 2.",
}

_MIRROR_CHECKPOINT = {
    "checkpoint-latency-ms": "Time from reading a group's offsets to the checkpoint's "
    "acknowledgement, last seen, in milliseconds.",
    "checkpoint-latency-ms-min": "Least checkpoint latency, in milliseconds.",
    "checkpoint-latency-ms-max": "Greatest checkpoint latency, in milliseconds.",
    "checkpoint-latency-ms-avg": "Mean checkpoint latency, in milliseconds.",
}

_WORKER = {
    "connector-count": "Connectors run in this worker.",
    "task-count": "Tasks run in this worker.",
    "connector-total-task-count": "Tasks of the connector on this worker.",
    "connector-running-task-count": "Running tasks of the connector on this worker.",
    "connector-paused-task-count": "Paused tasks of the connector on this worker.",
    "connector-failed-task-count": "Failed tasks of the connector on this worker.",
    "connector-unassigned-task-count": "Unassigned tasks of the connector on this worker.",
    "connector-destroyed-task-count": "Destroyed tasks of the connector on this worker.",
    "connector-restarting-task-count": "Restarting tasks of the connector on this worker.",
}

_REBALANCE = {
    "rebalancing": "Whether this worker is rebalancing: 1 or 0.",
    "epoch": "The generation of the worker group.",
    "completed-rebalances-total": "Rebalances this worker completed.",
}

_COORDINATOR = {
    "assigned-connectors": "Connectors assigned to this worker.",
    "assigned-tasks": "Tasks assigned to this worker.",
}

_TASK = {
    "status": "The task's state, as a label.",
    "running-ratio": "Share of time that the task spent running.",
    "pause-ratio": "Share of time that the task spent paused.",
    "offset-commit-avg-time-ms": "Mean time to store the task's offsets, in milliseconds.",
    "offset-commit-max-time-ms": "Greatest time to store the task's offsets, in milliseconds.",
    "offset-commit-failure-percentage": "Share of offset commits that failed.",
    "offset-commit-success-percentage": "Share of offset commits that succeeded.",
}

_SOURCE_TASK = {
    "source-record-poll-total": "Records the task read.",
    "source-record-poll-rate": "Records the task read per second.",
    "source-record-write-total": "Records of the task that Kafka acknowledged.",
    "source-record-write-rate": "Records of the task that Kafka acknowledged per second.",
    "source-record-active-count": "Records read, but not acknowledged by Kafka yet.",
}

_ERRORS = {
    "total-record-errors": "Errors while records were handled.",
    "total-record-failures": "Records that could not be handled.",
    "total-records-skipped": "Records left out because of errors.",
    "total-retries": "Operations tried again.",
}

_HELP = {
    MIRROR_SOURCE_GROUP: _MIRROR_SOURCE,
    MIRROR_CHECKPOINT_GROUP: _MIRROR_CHECKPOINT,
    CONSUMER_FETCH_GROUP: {
        "records-lag": "Records in the source partition that the target has not acknowledged."
    },
    "connect-worker-metrics": _WORKER,
    "connect-worker-rebalance-metrics": _REBALANCE,
    "connect-coordinator-metrics": _COORDINATOR,
    "connector-metrics": {"status": "The connector's state, as a label."},
    "connector-task-metrics": _TASK,
    "source-task-metrics": _SOURCE_TASK,
    "task-error-metrics": _ERRORS,
    "metrics-registry": {
        "failed-read-count": "How often a source of figures could not be read for this page."
    },
}


def describe(group: str, attribute: str) -> str:
    """One line on what the attribute means."""
    known = _HELP.get(group, {}).get(attribute)
    return known or f"Attribute {attribute} of Kafka's metrics group {group}."
