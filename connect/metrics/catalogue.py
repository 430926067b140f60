"""Descriptions of metric attributes, for the HELP lines of the /metrics page and for the docs.

Groups and attributes have the names of Apache Kafka's MBeans. Descriptions say which attributes
Apache Kafka does not have.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.metrics.descriptions import CONNECT_TEXTS

__all__ = [
    "CONNECTOR_HEALTH_GROUP",
    "CONSUMER_FETCH_GROUP",
    "CONSUMER_GROUP",
    "MIRROR_CHECKPOINT_GROUP",
    "MIRROR_FLOW_GROUP",
    "MIRROR_SOURCE_GROUP",
    "PROCESS_GROUP",
    "PRODUCER_GROUP",
    "PRODUCER_TOPIC_GROUP",
    "PYTHON_GROUP",
    "describe",
    "described",
]

MIRROR_SOURCE_GROUP = "MirrorSourceConnector"
MIRROR_CHECKPOINT_GROUP = "MirrorCheckpointConnector"
CONSUMER_FETCH_GROUP = "consumer-fetch-manager-metrics"
CONSUMER_GROUP, PRODUCER_GROUP = "consumer-metrics", "producer-metrics"
PRODUCER_TOPIC_GROUP = "producer-topic-metrics"
MIRROR_FLOW_GROUP = "MirrorFlow"
"""A flow's tasks as a whole. Kafka has no such group."""
CONNECTOR_HEALTH_GROUP = "ConnectorHealth"
"""Whether each connector is healthy. Kafka has no such group."""
PROCESS_GROUP, PYTHON_GROUP = "process", "python"
"""This process and its interpreter. Kafka has no such groups."""

_MIRROR_SOURCE = {
    "record-count": "Records acknowledged by the target since the task started.",
    "record-rate": "Records acknowledged per second, over the last 30 to 60 seconds.",
    "byte-count": "Bytes read from the source since the task started.",
    "byte-rate": "Bytes read per second, over the last 30 to 60 seconds.",
    "record-age-ms": "Age of the newest record when it was last read, in milliseconds.",
    "record-age-ms-min": "Minimum age of records when read, in milliseconds.",
    "record-age-ms-max": "Maximum age of records when read, in milliseconds.",
    "record-age-ms-avg": "Mean age of records when read, in milliseconds.",
    "replication-latency-ms": "Time from a record's timestamp to the target's acknowledgement, "
    "newest value, in milliseconds.",
    "replication-latency-ms-min": "Minimum replication latency, in milliseconds.",
    "replication-latency-ms-max": "Maximum replication latency, in milliseconds.",
    "replication-latency-ms-avg": "Mean replication latency, in milliseconds.",
    "record-lag": "Records in the source partition that the target has not acknowledged. "
    "Not in Java's MirrorMaker 2.",
    "time-lag-ms": "Age of the newest acknowledged record while newer ones wait, 0 when none "
    "waits, in milliseconds. Not in Java's MirrorMaker 2.",
    "shallow-record-count": "Records forwarded in unchanged batches. Not in Java's MirrorMaker 2.",
    "shallow-batch-count": "Batches forwarded unchanged. Not in Java's MirrorMaker 2.",
    "record-level-record-count": "Records that were copied one by one. "
    "Not in Java's MirrorMaker 2.",
    "record-level-batch-count": "Batches written with records that were copied one by one. "
    "Not in Java's MirrorMaker 2.",
    "offsets-to-loss": "Offsets between the source's log start and the next record to copy. "
    "Not in Java's MirrorMaker 2.",
    "time-to-loss-ms": "Estimated time until retention deletes records that are not copied, from "
    "the speed of log start and copy in the last half hour, in milliseconds; +Inf: never. "
    "Not in Java's MirrorMaker 2.",
    "stuck": "1 if the partition makes no progress and is not caught up, else 0. "
    "Not in Java's MirrorMaker 2.",
    "limited": "1 while a rate limit of the flow or topic (mirror.rate.*) delays "
    "records, else 0. Not in Java's MirrorMaker 2.",
    "throttle-time-ms": "Total time that a rate limit of the flow or topic (mirror.rate.*) has "
    "delayed records, in milliseconds. Not in Java's MirrorMaker 2.",
    "quarantined-record-count": "Offsets that went to the quarantine topic, not to the copy. "
    "Not in Java's MirrorMaker 2.",
    "already-copied-record-count": "Records found on the target beyond the stored offset after a "
    "crash, and not copied again. Not in Java's MirrorMaker 2.",
    "loss-count": "Times that one of the partition's logs lost records or was re-created. "
    "Not in Java's MirrorMaker 2.",
    "lost-record-count": "Offsets lost by one of the partition's logs. "
    "Not in Java's MirrorMaker 2.",
}

_MIRROR_CHECKPOINT = {
    "checkpoint-latency-ms": "Time from reading a group's offsets to the checkpoint's "
    "acknowledgement, newest value, in milliseconds.",
    "checkpoint-latency-ms-min": "Minimum checkpoint latency, in milliseconds.",
    "checkpoint-latency-ms-max": "Maximum checkpoint latency, in milliseconds.",
    "checkpoint-latency-ms-avg": "Mean checkpoint latency, in milliseconds.",
}

_CLIENT = {
    "connection-count": "Connections to brokers.",
    "incoming-byte-total": "Bytes read from all brokers. Mirrors on Spark: bytes of the fetched "
    "batches.",
    "outgoing-byte-total": "Bytes sent to all brokers. Mirrors on Spark: bytes of the batches "
    "fetched to be sent.",
    "request-total": "Requests sent.",
    "response-total": "Responses received.",
}

_NODE = {
    "incoming-byte-total": "Bytes read from the broker.",
    "outgoing-byte-total": "Bytes sent to the broker.",
    "request-total": "Requests sent to the broker.",
    "response-total": "Responses received from the broker.",
}

_ERRORS = {
    "total-record-failures": "Failed attempts of record operations.",
    "total-record-errors": "Record operations that failed after all retries.",
    "total-records-skipped": "Records skipped because of errors.",
    "total-retries": "Retries of record operations.",
    "total-errors-logged": "Failed records that were logged.",
    "deadletterqueue-produce-requests": "Records sent to the dead letter queue.",
    "deadletterqueue-produce-failures": "Failed writes to the dead letter queue.",
    "last-error-timestamp": "Time of the last record that failed, in ms since 1970; 0: none.",
}

_HELP: Mapping[str, Mapping[str, str]] = {
    MIRROR_SOURCE_GROUP: _MIRROR_SOURCE,
    MIRROR_CHECKPOINT_GROUP: _MIRROR_CHECKPOINT,
    CONSUMER_FETCH_GROUP: {
        "records-lag": "Mirrors: records in the source partition that the target has not "
        "acknowledged. Sinks: records after the last one that was read.",
        "records-lag-max": "Mirrors: maximum of records-lag lately.",
        "records-lag-avg": "Mean of records-lag lately.",
        "records-consumed-total": "Records the client consumed.",
        "bytes-consumed-total": "Bytes of keys and values the client consumed.",
        "fetch-latency-avg": "Mean time lately from a request to the broker's answer, in "
        "milliseconds. Mirrors: of fetches, which wait for new records.",
    },
    CONSUMER_GROUP: _CLIENT,
    "consumer-node-metrics": _NODE,
    "producer-node-metrics": _NODE,
    PRODUCER_GROUP: {
        **_CLIENT,
        "request-latency-avg": "Mean time lately from a request to the broker's answer, in "
        "milliseconds.",
        "record-send-total": "Records the client sent. Mirrors: records that the target "
        "acknowledged.",
        "buffer-total-bytes": "Memory for records that wait to be sent.",
        "buffer-available-bytes": "Free memory for records that wait to be sent.",
    },
    PRODUCER_TOPIC_GROUP: {
        "record-send-total": "Records the client sent to the topic. Mirrors: records that the "
        "target acknowledged.",
        "byte-total": "Bytes the client sent to the topic.",
    },
    PROCESS_GROUP: {
        "cpu-seconds-total": "CPU time of this process, in seconds.",
        "start-time-seconds": "Start time of this process, in seconds since 1970.",
        "virtual-memory-bytes": "Virtual memory of this process.",
        "resident-memory-bytes": "Resident memory of this process.",
        "open-fds": "Open file descriptors of this process.",
        "max-fds": "Maximum number of open file descriptors of this process.",
    },
    CONNECTOR_HEALTH_GROUP: {
        "healthy": "1 if the connector and its tasks are healthy as this worker sees them, else 0. "
        "Not in Java's Kafka Connect.",
    },
    PYTHON_GROUP: {
        "info": "The Python interpreter that runs this process.",
        "gc-objects-collected-total": "Objects that the garbage collector has freed.",
        "gc-objects-uncollectable-total": "Objects that the garbage collector could not free.",
        "gc-collections-total": "Runs of the garbage collector.",
    },
    MIRROR_FLOW_GROUP: {
        "on-spark": "1 if Spark copies, 0 if the worker does. Not in Java's MirrorMaker 2.",
        "source-late-seconds-total": "Seconds by which fetch responses came later than source "
        "brokers may wait, if they were late by a second or more. Not in Java's MirrorMaker 2.",
        "record-age-seconds": "Ages of records when read: all records of a batch count with the "
        "newest one's. Not in Java's MirrorMaker 2.",
        "replication-latency-seconds": "Times from records' timestamps to the target's "
        "acknowledgement: all records of a batch count with the newest one's. "
        "Not in Java's MirrorMaker 2.",
    },
    **CONNECT_TEXTS,
    "task-error-metrics": _ERRORS,
    "spark-session-metrics": {
        "status": "State of the process's Spark session, or why it is not ready. "
        "Not in Java's MirrorMaker 2.",
        "ready": "1 if the process has a Spark session, else 0. Not in Java's MirrorMaker 2.",
        "start-count": "Spark sessions this process has started. Not in Java's MirrorMaker 2.",
    },
    "spark-job-metrics": {
        "status": "State of the job, or why it does not run. Not in Java's MirrorMaker 2.",
        "engine": "The engine of the job's last run: spark, or process and why. "
        "Not in Java's MirrorMaker 2.",
        "run-count": "Runs of the job. Not in Java's MirrorMaker 2.",
        "failure-count": "Runs of the job that failed. Not in Java's MirrorMaker 2.",
        "skipped-count": "Runs skipped because the previous one took too long. "
        "Not in Java's MirrorMaker 2.",
        "running-ms": "Duration of the job's current run, in milliseconds. "
        "Not in Java's MirrorMaker 2.",
        "last-run-ms": "Duration of the job's last run, in milliseconds. "
        "Not in Java's MirrorMaker 2.",
    },
    "metrics-registry": {"failed-read-count": "Failed reads of metrics for this page."},
}


def described() -> Mapping[str, Mapping[str, str]]:
    """Return the descriptions of all attributes, by group."""
    return _HELP


def describe(group: str, attribute: str) -> str:
    """Return one line that describes the attribute."""
    known = _HELP.get(group, {}).get(attribute)
    return known or f"Attribute {attribute} of Kafka's metrics group {group}."
