"""What a mirror says when one permission of the table is left out of those that its flow needs.

Each row is tried on a flow of its own, by a mirror that has every other permission.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError

from confluent_kafka.admin import NewPartitions

from connect.clients.permissions import Operation
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.required_permissions import (
    ON_REQUEST,
    OTHERS,
    Feature,
    RequiredPermission,
    required_permissions,
)
from deploy.brokers import KafkaCluster
from deploy.site.permissions_reference import NAMES
from tests.support.flows.mirrored import running
from tests.support.flows.transformed import JSON_VALUES, SMT, transforms
from tests.support.records.losing import delete_topic
from tests.support.records.producing import Record, produce
from tests.support.records.topics import admin, alter_topic, create_topic, has_topic
from tests.support.security.guarded_flow import ONCE, Guarded, granted
from tests.support.security.permissions import forget, grant, topic
from tests.support.served import health_of
from tests.support.spark.flow import SPARK, START_S
from tests.support.waiting import wait_until

__all__ = [
    "CONNECTORS_USER",
    "JOBS_USER",
    "MIRRORMAKER_1_USER",
    "USER",
    "USERS",
    "WORKERS_USER",
    "Mode",
    "Row",
    "in_words_of_the_page",
    "log_texts",
    "message_of",
    "named_by",
    "names",
    "prepare_topics",
    "rows",
    "said",
    "texts_of",
    "without_numbers",
]

USER, CONNECTORS_USER, WORKERS_USER, JOBS_USER = "taken", "connectors", "workers", "jobs"
MIRRORMAKER_1_USER = "mirrormaker1"
USERS = (USER, CONNECTORS_USER, WORKERS_USER, JOBS_USER, MIRRORMAKER_1_USER)
"""What may run at the same time logs in as others: permissions of one are not those of another."""
_SOON_S, _TIMEOUT_S = 60.0, 30.0
_HEARTBEATS = "heartbeats"
_SHARED = (_HEARTBEATS, PROVENANCE_TOPIC)
"""Topics that have one name in all flows."""

_GRANT = re.compile(r"[Gg]rant ((?:[A-Z]\w+(?:, | and )?)+) on (?:the )?([^;]*)")
_LOG_LINE = re.compile(r"^\S+ \S+ [A-Z]+ +(.*?)(?: \([\w.]+\))?$")
_OFTEN = {
    "heartbeats.replication.enabled": "true",
    "sync.topic.configs.enabled": "true",
    "sync.topic.configs.interval.seconds": "1",
}
_SPARK = {**SPARK, "B.offset.flush.interval.ms": "500"}
_ACLS = {"sync.topic.acls.enabled": "true", "sync.topic.acls.interval.seconds": "1"}
_IN_SENTENCES = {"<topics>": "orders", "A.*": "A.orders", "<groups>": "readers"}
"""What stands for a pattern of the table in a sentence."""
_ALONE = {
    *ON_REQUEST,
    *OTHERS,
    Feature.EXACTLY_ONCE,
    Feature.QUARANTINE,
    # It copies permissions, also those of the user who lacks one.
    Feature.ACL_SYNC,
}


class Mode(Enum):
    """A way to run a flow, in which some permissions are missed in other words."""

    COPY = "at least once"
    ONCE = "exactly once"
    ACLS = "ACL sync"
    QUARANTINE = "quarantine"
    SPARK = "on Spark"
    SPARK_ONCE = "exactly once on Spark"

    @property
    def features(self) -> set[Feature]:
        """What the mode's flows do."""
        if self is Mode.QUARANTINE:
            return {Feature.WORKER, Feature.COPYING, Feature.NEW_PARTITIONS, Feature.QUARANTINE}
        more = {
            Mode.ACLS: {Feature.ACL_SYNC},
            Mode.ONCE: {Feature.EXACTLY_ONCE},
            Mode.SPARK_ONCE: {Feature.EXACTLY_ONCE},
        }
        return {each for each in Feature if each not in _ALONE} | more.get(self, set())

    @property
    def tried(self) -> set[Feature]:
        """The features whose permissions are left out in this mode."""
        return {
            Mode.COPY: self.features,
            Mode.ONCE: {Feature.WORKER, Feature.COPYING, Feature.EXACTLY_ONCE},
            Mode.ACLS: {Feature.ACL_SYNC},
            Mode.QUARANTINE: {Feature.QUARANTINE},
            # The others are needed by the worker, whatever copies.
            Mode.SPARK: {Feature.COPYING, Feature.OFFSET_MAP},
            # Executors also write the copies in transactions.
            Mode.SPARK_ONCE: {Feature.COPYING, Feature.EXACTLY_ONCE},
        }[self]

    @property
    def soon_s(self) -> float:
        """How long what is said may take. A busy machine takes minutes to start Spark."""
        return START_S if self in (Mode.SPARK, Mode.SPARK_ONCE) else _SOON_S

    def properties(self, aside: str) -> dict[str, str]:
        """What such a flow has besides those of `Guarded`. `aside`: a quarantine topic."""
        if self is Mode.QUARANTINE:
            mask = {"mask": {"type": f"{SMT}MaskField$Value", "fields": "n"}}
            return {
                **transforms(mask),
                **JSON_VALUES,
                "mirror.quarantine.topic": aside,
                "mirror.offset.map.enabled": "false",
                "mirror.provenance.enabled": "false",
                "emit.checkpoints.enabled": "false",
                "emit.heartbeats.enabled": "false",
            }
        more: dict[Mode, Mapping[str, str]] = {
            Mode.ONCE: ONCE,
            Mode.ACLS: _ACLS,
            Mode.SPARK: _SPARK,
            Mode.SPARK_ONCE: {**_SPARK, **ONCE},
        }
        return {**_OFTEN, **more.get(self, {})}


class Row(NamedTuple):
    """A permission that is left out in a mode, in the names of the page."""

    mode: Mode
    permission: RequiredPermission

    @property
    def key(self) -> tuple[str, str, str]:
        """Mode, cluster and permission, as the page has them."""
        return self.mode.value, self.permission.cluster, str(self.permission)


def rows() -> Iterator[Row]:
    """All that is tried."""
    for mode in Mode:
        for permission in required_permissions(NAMES, mode.features):
            if permission.feature in mode.tried:
                yield Row(mode, permission)


def names(row: Row, sentence: str) -> bool:
    """Whether a sentence in the page's words says to grant what the row leaves out."""
    return named_by(row.permission, sentence)


def named_by(wanted: RequiredPermission, sentence: str) -> bool:
    """Whether a sentence in the page's words says to grant this permission of the page."""
    name = _IN_SENTENCES.get(str(wanted.pattern), wanted.pattern.name)
    what = " ".join(filter(None, (wanted.resource.value, name)))
    return any(
        str(wanted.operation) in re.split(r", | and ", operations) and what in rest
        for operations, rest in _GRANT.findall(sentence)
    )


def prepare_topics(guarded: Guarded, taken: RequiredPermission) -> None:
    """Have the topics with which a permission of the flow is missed."""
    flow, name = guarded.flow, taken.pattern.name
    if not has_topic(flow.source_servers, _HEARTBEATS):
        create_topic(flow.source_servers, name=_HEARTBEATS)
    # An ACL of the source that is to be copied.
    grant(flow.source, "reader", [topic(guarded.topic, "read")])
    _fill(flow.target_servers, taken)
    is_creation = taken.operation is Operation.CREATE
    if is_creation and name in _SHARED and has_topic(flow.target_servers, name):
        delete_topic(flow.target_servers, name)
        wait_until(lambda: not has_topic(flow.target_servers, name), _TIMEOUT_S, "it is gone")


def _fill(target: str, taken: RequiredPermission) -> None:
    """Have an internal topic of the target that is described or read only if it exists, and has
    records."""
    name = taken.pattern.name
    started_with = name.endswith(".checkpoints.internal") or name == PROVENANCE_TOPIC
    is_read = taken.operation is Operation.READ and started_with
    is_described = taken.operation is Operation.DESCRIBE_CONFIGS and taken.feature is Feature.WORKER
    if (is_read or is_described) and not has_topic(target, name):
        create_topic(target, name=name, configs={"cleanup.policy": "compact"})
    if is_read:
        produce(target, name, [Record(b"a value", b"a key")])


class _Taken:
    """A flow whose user lacks one permission."""

    def __init__(self, clusters: tuple[KafkaCluster, KafkaCluster], row: Row) -> None:
        self._row = row
        self.guarded = Guarded(clusters, USER)
        self._aside = f"{self.guarded.flow.prefix}-aside"
        self._provoked = False
        self._permission = self._in_names_of_the_flow()
        if row.mode is Mode.QUARANTINE:
            source = self.guarded.flow.source_servers
            produce(source, self.guarded.topic, [Record(b"not JSON")])
        prepare_topics(self.guarded, self._permission)
        self._grant_the_others(clusters)

    def _grant_the_others(self, clusters: tuple[KafkaCluster, KafkaCluster]) -> None:
        needed = self.guarded.needed(self._row.mode.features, self.properties)
        for cluster in clusters:
            # The flow before had the same user.
            forget(cluster, USER)
            mine = [each for each in needed if self.guarded.cluster(each) is cluster]
            others = [granted(each) for each in mine if each != self._permission]
            grant(cluster, USER, others)

    @property
    def properties(self) -> dict[str, str]:
        # Of a topic that only a pattern names, nobody knows who may not describe it.
        return {**self._row.mode.properties(self._aside), "topics": self.guarded.topic}

    def _in_names_of_the_flow(self) -> RequiredPermission:
        """The row's permission: the table has the same order in all names."""
        features = self._row.mode.features
        of_page = required_permissions(NAMES, features)
        of_flow = self.guarded.needed(features, self.properties)
        for mine, its in zip(of_flow, of_page, strict=True):
            assert mine.operation is its.operation
            if str(its.pattern) not in _IN_SENTENCES:
                assert self.in_words_of_the_page(str(mine.pattern)) == str(its.pattern)
        return of_flow[of_page.index(self._row.permission)]

    def provoke(self) -> None:
        """Once there is a copy, change what is synced later."""
        flow, source = self.guarded.flow, self.guarded.topic
        if self._provoked or not has_topic(flow.target_servers, flow.remote(source)):
            return
        self._provoked = True
        asked = admin(flow.source_servers).create_partitions([NewPartitions(source, 3)])
        asked[source].result(_TIMEOUT_S)
        alter_topic(flow.source_servers, source, {"retention.ms": "864000000"})

    def about_grants(self, texts: Iterable[str]) -> Iterator[str]:
        """Those that say what to grant, in words of the page."""
        return (self.in_words_of_the_page(text) for text in texts if "rant " in text)

    def in_words_of_the_page(self, text: str) -> str:
        """The text without names, numbers and ports of its own."""
        return in_words_of_the_page(self.guarded, text.replace(self._aside, "<quarantine>"))


def in_words_of_the_page(guarded: Guarded, text: str) -> str:
    """The text without the flow's names, and without numbers and ports."""
    flow = guarded.flow
    for own, word in (
        (guarded.topic, "orders"),
        (guarded.group, "readers"),
        (flow.a, "A"),
        (flow.b, "B"),
    ):
        text = text.replace(own, word)
    return without_numbers(text)


def without_numbers(text: str) -> str:
    """The text without what differs from run to run: ports, times and the paths of a trace."""
    text = re.sub(r"\b(?:127\.0\.0\.1|localhost):\d+", "broker:9092", text)
    text = re.sub(r" \(after \d+ ms\)|; retrying in [\d.]+ s$", "", text)
    # `/health` says it of a stage, with its time; the log without.
    text = re.sub(r"^Worker is still starting up\. The worker is currently [\w ]+\. ", "", text)
    text = re.sub(r", which began at [\dTZ:.-]+$", "", text)
    # Of a trace the cause: the rest has paths of this machine.
    cause = text.partition("The above exception was")[0]
    return re.sub(r"^[\w.]+: (?=[A-Z])", "", " ".join(cause.split()))


def log_texts(log: Path) -> list[str]:
    """The messages of a log so far."""
    return [message_of(line) for line in log.read_text().splitlines()]


def message_of(line: str) -> str:
    """The line of a log without time, level and logger; any other line as it is."""
    return _LOG_LINE.sub(r"\1", line)


def texts_of(document: object) -> Iterator[str]:
    """The texts in a JSON document."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for each in document.values():
            yield from texts_of(each)
    elif isinstance(document, list):
        for each in document:
            yield from texts_of(each)


def said(
    clusters: tuple[KafkaCluster, KafkaCluster],
    row: Row,
    directory: Path,
    log: Path,
    listener: str,
    wanted: Callable[[str], bool],
    *,
    everywhere: bool = False,
) -> set[str]:
    """The sentences about grants on `/health` and in the log of a mirror without the row's
    permission, in the page's words, once one of them is `wanted`; `everywhere`: one of each."""
    taken = _Taken(clusters, row)
    properties = taken.guarded.properties(listener, taken.properties)
    logged: set[str] = set()
    shown: set[str] = set()

    def heard() -> bool:
        assert mirror.running(), log.read_text()
        taken.provoke()
        logged.update(taken.about_grants(log_texts(log)))
        with suppress(URLError, json.JSONDecodeError):
            shown.update(taken.about_grants(texts_of(health_of(listener))))
        enough = all if everywhere else any
        return enough(any(map(wanted, found)) for found in (logged, shown))

    with running(properties, directory, log) as mirror:
        wait_until(heard, row.mode.soon_s, f"{row.key} is named; said: {sorted(logged | shown)}")
    return logged | shown
