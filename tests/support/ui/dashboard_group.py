"""A worker group with flows in every state, and a history, for tests of the dashboard.

The REST server, the history database and the page are the real ones; only the herder is in memory,
so that a lost record or a missing worker is there at once, and the same in each picture.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, insert

from connect.config.connector import CONNECTOR_KEYS
from connect.config.definition import ConfigDef
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import ConnectorStatus, TaskStatus
from connect.runtime.rest_entities import ConfigInfo, ConfigInfos
from connect.runtime.states import State, Status, TargetState
from connectors.mirror.history.tables import TABLES, create_tables, prepare
from tests.support.workers.in_memory_herder import InMemoryHerder

__all__ = ["DashboardHerder", "Flow", "broken_group", "partitions", "quiet_group", "write_history"]

PACKAGE = "org.apache.kafka.connect.mirror."
WORKERS = ("mirror-1:8083", "mirror-2:8083", "mirror-3:8083")
_HOUR_MS = 3_600_000


@dataclass
class DashboardHerder(InMemoryHerder):
    """Its connectors have the statuses that a test gives them."""

    shown: dict[str, ConnectorStatus] = field(default_factory=dict)

    def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        """With the checks of the keys that all connectors have."""
        known = ConfigDef(CONNECTOR_KEYS)
        infos = known.validate(config)
        found = [ConfigInfo(known.keys.get(each.name), each) for each in infos]
        errors = sum(bool(each.errors) for each in infos)
        return ConfigInfos(config["connector.class"] or "", errors, [], found)

    def group_status(self, name: str) -> ConnectorStatus:
        status = self.shown[name]
        if self.targets.get(name) is TargetState.PAUSED:
            return replace(status, status=replace(status.status, state=State.PAUSED))
        return status


@dataclass(frozen=True)
class Flow:
    """A flow to be shown. `missing`: the number of a task whose worker does not answer."""

    source: str
    target: str
    partitions: Sequence[PartitionHealth]
    tasks: int = 3
    missing: int | None = None
    failed: int | None = None

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"

    def add_to(self, herder: DashboardHerder, history: Path | None) -> None:
        common = {
            "source.cluster.alias": self.source,
            "target.cluster.alias": self.target,
            "source.cluster.bootstrap.servers": "127.0.0.1:1",
            "target.cluster.bootstrap.servers": "127.0.0.1:1",
            "mirror.history.url": "none" if history is None else f"sqlite:///{history}",
        }
        for kind, tasks in (("Source", self.tasks), ("Checkpoint", 1), ("Heartbeat", 1)):
            name = f"{self.name}-{kind.lower()}"
            herder.configs[name] = {
                "name": name,
                "connector.class": f"{PACKAGE}Mirror{kind}Connector",
                "tasks.max": str(tasks),
                **common,
            }
            herder.targets[name] = TargetState.STARTED
            herder.shown[name] = ConnectorStatus(
                name,
                Status(State.RUNNING, WORKERS[0], 0),
                tuple(self._task(number, tasks, kind) for number in range(tasks)),
            )

    def _task(self, number: int, tasks: int, kind: str) -> TaskStatus:
        worker = WORKERS[number % len(WORKERS)]
        own = self.partitions[number::tasks] if kind == "Source" else ()
        if kind == "Source" and number == self.missing:
            seen = TaskStatus.seen_here(number, Status(State.RUNNING, worker, 0), None)
            return replace(seen, unknown=f"Worker {worker} cannot be asked: Connection refused")
        if kind == "Source" and number == self.failed:
            trace = "connect.errors.ConfigError: the topic has no leader\n  at task"
            return TaskStatus.seen_here(number, Status(State.FAILED, worker, 0, trace), ())
        return TaskStatus.seen_here(number, Status(State.RUNNING, worker, 0), own)


def partitions(
    topics: dict[str, int], *, behind_ms: int = 0, seed: int = 7
) -> list[PartitionHealth]:
    """Partitions that are behind by up to so much."""
    chance = random.Random(seed)
    found = []
    for topic, count in topics.items():
        slow = chance.random() ** 3
        for number in range(count):
            age = round(behind_ms * slow * chance.random()) if behind_ms else 0
            records = age * 2
            end = 5_000_000 + chance.randrange(1_000_000)
            found.append(
                PartitionHealth(
                    topic,
                    number,
                    records,
                    age,
                    None,
                    records * 400,
                    None,
                    {
                        "state": "active",
                        "position": end - records,
                        "high_watermark": end,
                        "log_start": end - 4_000_000,
                        "limited_by": None,
                        "undecided": 0,
                        "target": f"{topic}-{number}",
                    },
                )
            )
    return found


def quiet_group(history: Path | None) -> DashboardHerder:
    """Four clusters, all in time."""
    herder = DashboardHerder()
    shop = {"orders": 12, "payments": 12, "clicks": 24, "stock": 6}
    for source, target in (("us", "eu"), ("eu", "us"), ("eu", "archive"), ("asia", "eu")):
        Flow(source, target, partitions(shop)).add_to(herder, history)
    return herder


def broken_group(history: Path | None) -> DashboardHerder:
    """A hub with flows in trouble: a stuck partition, lost and nearly lost records, a rate limit, a
    missing worker."""
    herder = DashboardHerder()
    names = ("orders", "payments", "clicks", "stock", "prices", "sessions", "audit", "returns")
    shop = {f"{name}{suffix}": 24 for name in names for suffix in ("", ".v2")}
    us = partitions({**shop, "telemetry": 240}, behind_ms=40_000)
    us[5] = replace(
        us[5],
        error="the target rejected the batch at source offset 5120377: the record at source offset "
        "5120377 (2097211 bytes as a batch) is larger than max.message.bytes of orders (1048588)",
        lag_records=48_211,
        lag_ms=5_400_000,
        time_to_loss_ms=9_000_000,
    )
    for number, hours in ((30, 1.2), (31, 3.1), (61, 26.0), (90, 61.0), (122, 90.0)):
        us[number] = replace(
            us[number],
            lag_records=90_000 + number,
            lag_ms=700_000 * number // 30,
            time_to_loss_ms=round(hours * _HOUR_MS),
        )
    for number in range(140, 152):
        details = {**us[number].details, "limited_by": "mirror.rate.bytes of telemetry"}
        us[number] = replace(us[number], lag_records=4_000, lag_ms=30_000, details=details)
    flows = [
        Flow("us", "hub", us),
        Flow("hub", "us", partitions({"prices": 6, "catalog": 6})),
        Flow("eu", "hub", partitions(shop, behind_ms=1_000)),
        Flow("asia", "hub", partitions(shop, behind_ms=400_000, seed=3)),
        Flow("hub", "archive", partitions(shop), missing=1),
        Flow("hub", "analytics", partitions({"clicks": 48, "sessions": 24})),
    ]
    for flow in flows:
        flow.add_to(herder, history)
    return herder


def write_history(path: Path, flows: Sequence[tuple[str, str]], hours: float = 24) -> None:
    """Samples of the last hours, a backfill, an audit, a lost range and a changed config."""
    engine = create_engine(f"sqlite:///{path}")
    prepare(engine)
    create_tables(engine)
    now = time.time_ns() // 1_000_000
    chance = random.Random(11)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES.tables}
    for source, target in flows:
        of = {"process": "mirror-1:41", "connector": "c", "task": 0, "source": source}
        of |= {"target": target}
        for at in range(round(now - hours * _HOUR_MS), now, 10_000):
            day = 1 + 0.45 * math.sin(at / _HOUR_MS / 24 * 2 * math.pi)
            slow = 6 < (now - at) / _HOUR_MS < 7.5
            records = round(9_000 * day * (0.3 if slow else 1) * (0.9 + 0.2 * chance.random()) * 10)
            rows["mirror_samples"].append(
                of
                | {
                    "at_ms": at,
                    "span_ms": 10_000,
                    "partitions": 624,
                    "stuck": int(now - at < 1.5 * _HOUR_MS),
                    "lag_records": round((60_000 if slow else 900) * day),
                    "lag_ms": round((95_000 if slow else 700) * (0.8 + 0.4 * chance.random())),
                    "time_to_loss_ms": None,
                    "records": records,
                    "bytes": records * 412,
                    "latency_ms": (240 if slow else 14) * (0.9 + 0.2 * chance.random()),
                }
            )
    source, target = flows[0]
    of = {"process": "mirror-1:41", "connector": "c", "task": 0, "source": source, "target": target}
    event = of | {"topic": "orders", "target_topic": "orders", "action": "", "side": "source"}
    event |= {"first": None, "last": None, "records": 0, "resume": None}
    rows["mirror_events"] += [
        event
        | {
            "at_ms": now - 5 * _HOUR_MS,
            "partition": 3,
            "kind": "retention",
            "action": "report",
            "first": 118_400,
            "last": 119_711,
            "records": 1_312,
            "text": "orders-3: the source deleted offsets 118400 to 119711 before they were "
            "copied; copying continues at 119712",
        },
        event
        | {
            "at_ms": now - 90 * 60_000,
            "partition": 5,
            "kind": "stuck",
            "text": "the record at source offset 5120377 (2097211 bytes as a batch) is larger than "
            "max.message.bytes of orders (1048588)",
        },
        event
        | {
            "at_ms": now - 7 * _HOUR_MS,
            "topic": "",
            "target_topic": "",
            "partition": -1,
            "kind": "changed",
            "text": "anna: PUT /connectors/us-hub-source/config",
        },
    ]
    for number in range(12):
        rows["mirror_ranges"].append(
            of
            | {
                "at_ms": now - 90 * 60_000 - number * 10_000,
                "topic": "orders",
                "partition": 5,
                "target_topic": "orders",
                "source_start": 5_120_377 - 900 * (number + 1),
                "source_end": 5_120_377 - 900 * number,
                "target_end": 5_020_000 - 900 * number,
                "records": 900,
                "bytes": 370_000,
            }
        )
    job = of | {"records": 81_000_000, "rate": 96e6, "text": "", "failed": 0}
    rows["mirror_jobs"] += [
        job
        | {
            "connector": "backfill",
            "at_ms": now,
            "job": "one",
            "kind": "backfill",
            "state": "running",
            "began_ms": now - 20 * 60_000,
            "parts": 240,
            "done": 131,
            "bytes": 118_000_000_000,
            "left_bytes": 74_000_000_000,
            "left_ms": 770_000,
        },
        job
        | {
            "connector": "audit",
            "at_ms": now - 3 * _HOUR_MS,
            "job": "two",
            "kind": "audit",
            "state": "done",
            "began_ms": now - 4 * _HOUR_MS,
            "parts": 624,
            "done": 624,
            "bytes": 92_000_000_000,
            "left_bytes": 0,
            "left_ms": 0,
            "text": "No difference found",
        },
    ]
    with engine.begin() as connection:
        for name, many in rows.items():
            if many:
                connection.execute(insert(TABLES.tables[name]), many)
    engine.dispose()
