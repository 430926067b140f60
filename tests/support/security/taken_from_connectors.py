"""What mirror connectors that were created over REST say when one permission of the table is left
out of those that they need.

One worker of a Connect cluster runs them. They log in as `CONNECTORS_USER`; the records are written
by the worker's principal, or by the one that the connectors' overrides name. Each row has
connectors and a flow of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from connectors.mirrormaker.required_permissions import (
    Feature,
    RequiredPermission,
    required_permissions,
)
from deploy.brokers import KafkaCluster
from deploy.site.permissions_reference import NAMES, WORKER_NAMES
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.security.guarded_flow import Guarded, granted
from tests.support.security.permissions import Grant, forget, grant, group, login, revoke, topic
from tests.support.security.taken_permissions import (
    CONNECTORS_USER,
    in_words_of_the_page,
    log_texts,
    named_by,
    prepare_topics,
    texts_of,
)
from tests.support.waiting import wait_until
from tests.support.workers.distributed import GroupWorker
from tests.support.workers.java_connect import worker_properties

__all__ = ["ConnectorRow", "MirrorWorkers", "Writer", "connector_rows"]

_SOON_S = 60.0
_TRIED = (Feature.COPYING, Feature.OFFSET_MAP, Feature.GROUP_OFFSETS, Feature.HEARTBEATS)
_FEATURES = {*_TRIED, Feature.NEW_PARTITIONS}
_CONNECTORS = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
_FACTORS = ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")
_OFTEN = ("emit.checkpoints", "emit.heartbeats", "refresh.groups")


class Writer(Enum):
    """Whose principal writes the records of copies."""

    WORKER = "connectors of a worker"
    OVERRIDES = "connectors with overrides"


class ConnectorRow(NamedTuple):
    """A permission that connectors lack, in the names of the page."""

    writer: Writer
    permission: RequiredPermission

    @property
    def key(self) -> tuple[str, str, str]:
        """Writer, cluster and permission, as the page has them."""
        return self.writer.value, self.permission.cluster, str(self.permission)


def connector_rows() -> Iterator[ConnectorRow]:
    """All that is tried."""
    for writer in Writer:
        for permission in required_permissions(NAMES, _FEATURES):
            if permission.feature in _TRIED:
                yield ConnectorRow(writer, permission)


class MirrorWorkers:
    """One worker at a time: that of the last row."""

    def __init__(self, clusters: tuple[KafkaCluster, KafkaCluster], directory: Path) -> None:
        self._clusters = clusters
        self._directory = directory
        self._stack = ExitStack()
        self._running: _MirrorWorker | None = None

    def of(self, writer: Writer) -> _MirrorWorker:
        if self._running is None or self._running.writer is not writer:
            self.close()
            directory = self._directory / writer.name.lower()
            started = _mirror_worker(self._clusters, writer, directory)
            self._running = self._stack.enter_context(started)
        return self._running

    def close(self) -> None:
        self._running = None
        self._stack.close()


class _MirrorWorker:
    """A worker, and the connectors that a row has it run."""

    def __init__(
        self,
        clusters: tuple[KafkaCluster, KafkaCluster],
        writer: Writer,
        worker: GroupWorker,
        log: Path,
    ) -> None:
        self._clusters = clusters
        self.writer = writer
        self._worker = worker
        self._log = log
        self._begin = 0

    def said(self, row: ConnectorRow, wanted: Callable[[set[str]], bool] = bool) -> set[str]:
        """The sentences that name the row's permission, in the page's words, once they are
        `wanted`."""
        with self._running(row.permission) as guarded:
            found: set[str] = set()

            def heard() -> bool:
                assert self._worker.running, self._log.read_text()
                found.update(
                    each for each in self._texts(guarded) if named_by(row.permission, each)
                )
                return wanted(found)

            wait_until(heard, _SOON_S, f"{row.key} is named; see {self._log}")
            return found

    def works(self) -> None:
        """Copy a topic, a group's offsets and heartbeats with all permissions and no others."""
        with self._running(None) as guarded:
            guarded.wait_copied()
            guarded.wait_heartbeats()
            guarded.wait_checkpoints()

    @contextmanager
    def _running(self, without: RequiredPermission | None) -> Iterator[Guarded]:
        guarded = Guarded(self._clusters, CONNECTORS_USER)
        self._begin = len(log_texts(self._log))
        extra = {"topics": guarded.topic}
        of_flow = guarded.needed(_FEATURES, extra)
        of_page = required_permissions(NAMES, _FEATURES)
        left_out = None if without is None else of_flow[of_page.index(without)]
        mine: dict[KafkaCluster, list[Grant]] = {cluster: [] for cluster in self._clusters}
        for each in of_flow:
            if each != left_out:
                mine[guarded.cluster(each)].append(granted(each))
        for cluster, grants in mine.items():
            grant(cluster, CONNECTORS_USER, grants)
        if left_out is not None:
            prepare_topics(guarded, left_out)
        names = [f"{guarded.flow.prefix}-{kind}" for kind in _CONNECTORS]
        try:
            for name, kind in zip(names, _CONNECTORS, strict=True):
                path, config = f"/connectors/{name}/config", self._config(guarded, kind)
                made = call(self._worker.url, "PUT", path, config)
                assert made.status < 300, made.body
            yield guarded
        finally:
            for name in names:
                call(self._worker.url, "DELETE", f"/connectors/{name}")
            # A task that goes on for a moment would make a topic that the next row deletes.
            wait_until(lambda: self._stopped(names), _SOON_S, f"{names} to be gone")
            for cluster, grants in mine.items():
                revoke(cluster, CONNECTORS_USER, grants)

    def _stopped(self, names: Iterable[str]) -> bool:
        """Whether the worker has stopped the tasks, too."""
        asked = (call(self._worker.url, "GET", f"/connectors/{name}/status") for name in names)
        joined = [text for text in log_texts(self._log) if text.startswith("Joined generation")]
        gone = all(each.status == 404 for each in asked)
        return gone and ": 0 assigned, 0 revoked" in joined[-1]

    def _config(self, guarded: Guarded, kind: str) -> dict[str, str]:
        flow = guarded.flow
        logins = {
            f"{side}.cluster.{key}": value
            for side, cluster in (("source", flow.source), ("target", flow.target))
            for key, value in login(cluster, CONNECTORS_USER).items()
        }
        if self.writer is Writer.OVERRIDES:
            mine = login(flow.target, CONNECTORS_USER).items()
            logins |= {f"producer.override.{key}": value for key, value in mine}
        return {
            "connector.class": kind,
            "source.cluster.alias": flow.a,
            "target.cluster.alias": flow.b,
            "topics": guarded.topic,
            "groups": guarded.group,
            "sync.topic.configs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "mirror.provenance.enabled": "false",
            "mirror.history.url": "none",
            **{f"{prefix}replication.factor": "1" for prefix in _FACTORS},
            **{f"{prefix}.interval.seconds": "1" for prefix in _OFTEN},
            **logins,
        }

    def _texts(self, guarded: Guarded) -> Iterator[str]:
        """What the log has said since the row began, `/health` and the statuses, in the page's
        words."""
        texts = log_texts(self._log)[self._begin :]
        for path in ("/health", "/connectors?expand=status"):
            texts += texts_of(json.loads(call(self._worker.url, "GET", path).body))
        for text in texts:
            words = in_words_of_the_page(guarded, text)
            for kind in _CONNECTORS:
                words = words.replace(f"{guarded.flow.prefix}-{kind}", "<name>")
            yield words


@contextmanager
def _mirror_worker(
    clusters: tuple[KafkaCluster, KafkaCluster], writer: Writer, directory: Path
) -> Iterator[_MirrorWorker]:
    """A worker on the target. With `Writer.WORKER` it is `CONNECTORS_USER`, too; else it may do
    everything."""
    directory.mkdir(parents=True, exist_ok=True)
    target, name = clusters[1], unique("workers")
    for cluster in clusters:
        forget(cluster, CONNECTORS_USER)
    servers, logins = target.bootstrap_servers, dict[str, str]()
    if writer is Writer.WORKER:
        mine = login(target, CONNECTORS_USER)
        servers = mine.pop("bootstrap.servers")
        prefixes = ("", "producer.", "consumer.", "admin.")
        logins = {f"{prefix}{key}": mine[key] for prefix in prefixes for key in mine}
        grant(target, CONNECTORS_USER, _of_worker(name))
    worker = GroupWorker(1, worker_properties(servers, name, logins), directory, directory)
    try:
        worker.start().await_ready()
        yield _MirrorWorker(clusters, writer, worker, directory / "worker-1.log")
    finally:
        worker.close()


def _of_worker(name: str) -> list[Grant]:
    kinds = {"offsets": "<offsets topic>", "status": "<status topic>", "configs": "<config topic>"}
    topics = {word: f"{name}-{kind}" for kind, word in kinds.items()}
    grants = [group(name, "read")]
    for each in required_permissions(WORKER_NAMES, {Feature.WORKER}):
        if each.pattern.name in topics:
            grants.append(topic(topics[each.pattern.name], each.operation.name))
    return grants
