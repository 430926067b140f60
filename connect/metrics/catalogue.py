"""What each attribute means, for the HELP lines of the /metrics page and for the docs.

Groups and attributes have the names that Apache Kafka gives its MBeans; those that only we have
say so in their text.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.metrics.descriptions import CONNECT_TEXTS

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
    "offsets-to-loss": "How many offsets the source's log start is behind the next record. "
    "Not in Java's MirrorMaker 2.",
    "time-to-loss-ms": "When the source will delete records that wait, as fast as its log start "
    "has moved and the copy too in the last half hour; +Inf: never. "
    "Not in Java's MirrorMaker 2.",
    "stuck": "1 while the partition neither moves nor is caught up, else 0. "
    "Not in Java's MirrorMaker 2.",
    "limited": "1 while records wait because the flow or their topic is at its limit "
    "(mirror.rate.*), else 0. Not in Java's MirrorMaker 2.",
    "throttle-time-ms": "For how long, in all, records have waited because the flow or their topic "
    "was at its limit (mirror.rate.*), in milliseconds. Not in Java's MirrorMaker 2.",
    "quarantined-record-count": "Offsets that went to the quarantine topic and not to the copy. "
    "Not in Java's MirrorMaker 2.",
    "already-copied-record-count": "Records that a crash had left on the target beyond the stored "
    "offset, and that were not copied again. Not in Java's MirrorMaker 2.",
    "loss-count": "How often one of the partition's logs had lost records, or was made anew. "
    "Not in Java's MirrorMaker 2.",
    "lost-record-count": "Offsets that one of the partition's logs had lost. "
    "Not in Java's MirrorMaker 2.",
}

_MIRROR_CHECKPOINT = {
    "checkpoint-latency-ms": "Time from reading a group's offsets to the checkpoint's "
    "acknowledgement, last seen, in milliseconds.",
    "checkpoint-latency-ms-min": "Least checkpoint latency, in milliseconds.",
    "checkpoint-latency-ms-max": "Greatest checkpoint latency, in milliseconds.",
    "checkpoint-latency-ms-avg": "Mean checkpoint latency, in milliseconds.",
}

_ERRORS = {
    "total-record-failures": "Operations on records that failed, each try counted.",
    "total-record-errors": "Operations on records that failed for good.",
    "total-records-skipped": "Records left out because of errors.",
    "total-retries": "Operations on records that were tried again.",
    "total-errors-logged": "Failed records that were logged.",
    "deadletterqueue-produce-requests": "Records sent to the dead letter queue.",
    "deadletterqueue-produce-failures": "Records that did not get into the dead letter queue.",
    "last-error-timestamp": "When a record failed for good the last time, in ms since 1970; 0: "
    "never.",
}

_HELP: Mapping[str, Mapping[str, str]] = {
    MIRROR_SOURCE_GROUP: _MIRROR_SOURCE,
    MIRROR_CHECKPOINT_GROUP: _MIRROR_CHECKPOINT,
    CONSUMER_FETCH_GROUP: {
        "records-lag": "Records in the source partition that the target has not acknowledged."
    },
    **CONNECT_TEXTS,
    "task-error-metrics": _ERRORS,
    "spark-session-metrics": {
        "status": "Where the process's Spark session is, and why it is not ready. "
        "Not in Java's MirrorMaker 2.",
        "ready": "Whether there is a Spark session: 1 or 0. Not in Java's MirrorMaker 2.",
        "start-count": "Spark sessions this process has started. Not in Java's MirrorMaker 2.",
    },
    "spark-job-metrics": {
        "status": "What the job does, or why it does not run. Not in Java's MirrorMaker 2.",
        "engine": "What computed the job's last work: spark, or process and why. "
        "Not in Java's MirrorMaker 2.",
        "run-count": "Runs of the job. Not in Java's MirrorMaker 2.",
        "failure-count": "Runs of the job that failed. Not in Java's MirrorMaker 2.",
        "skipped-count": "Runs left out because the one before took too long. "
        "Not in Java's MirrorMaker 2.",
        "running-ms": "How long the job's run has been going on, in milliseconds. "
        "Not in Java's MirrorMaker 2.",
        "last-run-ms": "How long the job's last run took, in milliseconds. "
        "Not in Java's MirrorMaker 2.",
    },
    "metrics-registry": {
        "failed-read-count": "How often a source of figures could not be read for this page."
    },
}


def describe(group: str, attribute: str) -> str:
    """One line on what the attribute means."""
    known = _HELP.get(group, {}).get(attribute)
    return known or f"Attribute {attribute} of Kafka's metrics group {group}."
