"""Finds remedies for a partition that does not move or is slow. Pure.

The errors are the copier's own sentences and the brokers' error names; the remedies are those of
docs/how-to/troubleshooting.md.
"""

from __future__ import annotations

import re

__all__ = ["remedy"]

_REMEDIES = (
    (
        r"is larger than|MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE",
        "Raise max.message.bytes of the target topic, or name a topic for such records with "
        "mirror.quarantine.topic. Only this partition waits.",
    ),
    (
        r"INVALID_RECORD|INVALID_TIMESTAMP",
        "The target topic's settings refuse this record: compare cleanup.policy and "
        "message.timestamp.* of both topics, or name a topic for such records with "
        "mirror.quarantine.topic.",
    ),
    (
        r"is corrupt|CORRUPT",
        "Check the source broker's disk. To go on without the batch, name a topic for it with "
        "mirror.quarantine.topic.",
    ),
    (
        r"AUTHORIZATION_FAILED",
        "Grant Read and Describe on the source topic and Write on the target topic to the "
        "mirror's users.",
    ),
    (
        r"mirror\.loss\.policy",
        "Decide how to continue: set mirror.loss.policy of this kind of loss to report (go on) or "
        "copy (copy again).",
    ),
    (
        r"open transaction",
        "A producer left a transaction open: find and abort it with kafka-transactions.sh.",
    ),
    (r"quota", "A broker's quota slows this client down: raise it."),
    (
        r"NOT_ENOUGH_REPLICAS",
        "The target has too few in-sync replicas: start its brokers, or lower "
        "min.insync.replicas. The mirror retries in order.",
    ),
    (
        r"no leader|LEADER_NOT_AVAILABLE|NOT_LEADER",
        "The partition has no leader: start the brokers that hold its replicas. The mirror "
        "retries every second.",
    ),
    (
        r"UNKNOWN_TOPIC",
        "The topic does not exist there: create it, or let the mirror create it (Create on the "
        "target cluster).",
    ),
    (
        r"cannot connect|refused|not responded|unreachable|timed out|TIMED_OUT",
        "Check that the broker runs, and that its advertised address and port can be reached from "
        "this worker.",
    ),
    (
        r"SASL|[Aa]uthentication|SSL|TLS|certificate",
        "Check the user, password and certificates of this cluster in the flow's properties.",
    ),
)
_COMPILED = tuple((re.compile(pattern), text) for pattern, text in _REMEDIES)


def remedy(error: str | None, limited_by: str | None, losing: bool) -> str | None:
    """Return what to do; None if nothing has to be done."""
    if error is not None:
        for pattern, text in _COMPILED:
            if pattern.search(error):
                return text
        return "See the worker's log for this topic, and the page on troubleshooting."
    if losing:
        return (
            "Raise retention.ms or retention.bytes of the source topic before its records are "
            "deleted, and raise or remove the flow's rate limits."
        )
    if limited_by is not None:
        return f"The limit {limited_by} delays these records. Raise it if the lag matters."
    return None
