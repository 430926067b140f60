"""The forms in which a trial runs its mirror: as a dedicated process, on Spark, in both directions,
or by connectors that were created over REST."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.java_connect import worker_properties

__all__ = ["Form", "create_connectors", "program", "properties"]

_READY_S = 180.0
_FLUSH_MS = "700"
_REBALANCE_MS = "3000"
_BUFFER_BYTES = str(8 << 20)
"""Less than a burst of the writer at full rate, so that fetching has to wait."""


class Form(Enum):
    """By the names that `FAULT_FORM` takes."""

    DEDICATED = "dedicated"
    REST = "rest"
    SPARK = "spark"
    TWO_WAY = "two-way"


def program(form: Form) -> str:
    return "connect-distributed" if form is Form.REST else "connect-mirror-maker"


def properties(
    form: Form, flow: MirroredFlow, *, copies: int, exactly_once: bool
) -> dict[str, str]:
    """Of each worker."""
    if form is Form.REST:
        return _of_connect(flow, copies, exactly_once)
    more: dict[str, str] = {}
    sides = ["B"]
    if form is Form.TWO_WAY:
        more["B->A.enabled"] = "true"
        more["A.session.timeout.ms"], more["A.heartbeat.interval.ms"] = "6000", "500"
        sides.append("A")
    if form is Form.SPARK:
        more |= {
            "A->B.mirror.engine": "spark",
            "A->B.spark.master": "local[2]",
            "A->B.spark.driver.host": "127.0.0.1",
            "B.task.shutdown.graceful.timeout.ms": "20000",
        }
    for side in sides:
        more[f"{side}.scheduled.rebalance.max.delay.ms"] = _REBALANCE_MS
        more[f"{side}.offset.flush.interval.ms"] = _FLUSH_MS
        if exactly_once:
            more[f"{side}.exactly.once.source.support"] = "enabled"
    return flow.properties(
        {
            "dedicated.mode.enable.internal.rest": "true",
            "replication.factor": str(copies),
            **{f"{name}.topic.replication.factor": str(copies) for name in _TOPICS},
            **{f"{name}.storage.replication.factor": str(copies) for name in _STORES},
            "tasks.max": "2",
            "A.consumer.isolation.level": "read_committed",
            "B.consumer.isolation.level": "read_committed",
            **_COMMON,
            **more,
        }
    )


_TOPICS = ("checkpoints", "heartbeats", "offset-syncs")
_STORES = ("offset", "status", "config")
_COMMON = {
    # The copy of a compacted topic is not compacted: it shows what was copied.
    "config.properties.exclude": ".*",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "mirror.copy.buffer.bytes": _BUFFER_BYTES,
}


def _of_connect(flow: MirroredFlow, copies: int, exactly_once: bool) -> dict[str, str]:
    return {
        **worker_properties(flow.target_servers, unique("workers")),
        **{f"{name}.storage.replication.factor": str(copies) for name in _STORES},
        # As a dedicated mirror names it, for those who look into it.
        "offset.storage.topic": flow.offsets_topic,
        "offset.storage.partitions": "1",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "offset.flush.interval.ms": _FLUSH_MS,
        "scheduled.rebalance.max.delay.ms": _REBALANCE_MS,
        "exactly.once.source.support": "enabled" if exactly_once else "disabled",
    }


def create_connectors(flow: MirroredFlow, url: str, *, copies: int) -> None:
    """The source and the checkpoint connector, over REST."""
    common = {
        "source.cluster.alias": flow.a,
        "target.cluster.alias": flow.b,
        "source.cluster.bootstrap.servers": flow.source_servers,
        "target.cluster.bootstrap.servers": flow.target_servers,
        "source.consumer.isolation.level": "read_committed",
        "topics": f"{flow.prefix}.*",
        "replication.factor": str(copies),
        **{f"{name}.topic.replication.factor": str(copies) for name in _TOPICS},
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "mirror.history.url": "none",
        "tasks.max": "2",
        **_COMMON,
    }
    for kind in ("Source", "Checkpoint"):
        name = f"Mirror{kind}Connector"
        _put(url, name, {"connector.class": name, **common})


def _put(url: str, name: str, config: Mapping[str, str]) -> None:
    def accepted() -> bool:
        try:
            answer = call(url, "PUT", f"/connectors/{name}/config", config)
        except OSError:
            return False
        assert answer.status < 300 or answer.status in (404, 409, 500, 503), answer.body
        return answer.status < 300

    wait_until(accepted, _READY_S, f"{name} is created")
