"""What a worker of a Connect cluster says when one permission of the table is left out of those
that it and its connectors need.

Each worker has a source and a sink connector of its own. The sink finds a record that it cannot
convert, which goes to its dead letter queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from connect.clients.permissions import Operation
from connectors.mirrormaker.required_permissions import (
    Feature,
    RequiredPermission,
    required_permissions,
)
from deploy.brokers import KafkaCluster
from deploy.site.permissions_reference import WORKER_NAMES
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic, end_offset, has_topic, unique
from tests.support.rest import call
from tests.support.security.guarded_flow import granted
from tests.support.security.permissions import forget, grant, login
from tests.support.security.taken_permissions import (
    WORKERS_USER,
    log_texts,
    named_by,
    without_numbers,
)
from tests.support.waiting import wait_until
from tests.support.workers.distributed import GroupWorker
from tests.support.workers.java_connect import worker_properties

__all__ = ["GuardedWorker", "WorkerRow", "worker_rows", "worker_said"]

_SOON_S, _PAUSE_S = 60.0, 0.2
_PLAIN = (Feature.WORKER, Feature.SINK, Feature.DEAD_LETTERS, Feature.SOURCE)
_STANDALONE = {Feature.SINK, Feature.DEAD_LETTERS, Feature.SOURCE}
_WORDS = {
    Feature.WORKER: "distributed worker",
    Feature.EXACTLY_ONCE: "exactly-once worker",
    Feature.SINK: "sink connector",
    Feature.DEAD_LETTERS: "sink connector",
    Feature.SOURCE: "source connector",
}
_OF_GROUPS = (
    "group.id",
    "config.storage.",
    "status.storage.",
    "offset.storage.",
    "exactly.once.",
    "scheduled.rebalance.",
)
"""Properties that a standalone worker has no use for."""
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TEXT = "org.apache.kafka.connect.storage.StringConverter"


class WorkerRow(NamedTuple):
    """A permission that a worker or its connectors lack, in the names of the page."""

    permission: RequiredPermission
    standalone: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Program, cluster and permission, as the page has them."""
        permission = self.permission
        word = "standalone worker" if self.standalone else _WORDS[permission.feature]
        return word, permission.cluster, str(permission)


def worker_rows() -> Iterator[WorkerRow]:
    """All that is tried."""
    for feature in _WORDS:
        for permission in required_permissions(WORKER_NAMES, {feature}):
            yield WorkerRow(permission)
    for permission in required_permissions(WORKER_NAMES, _STANDALONE):
        yield WorkerRow(permission, standalone=True)


class GuardedWorker:
    """A worker that logs in as `WORKERS_USER`, and may do what its rows allow but for one."""

    def __init__(
        self,
        cluster: KafkaCluster,
        directory: Path,
        *,
        once: bool = False,
        standalone: bool = False,
        without: RequiredPermission | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._cluster = cluster
        self.group = unique("workers")
        self.written, self.read, self.aside = (unique(each) for each in ("lines", "json", "aside"))
        self._source, self._sink = unique("source"), unique("sink")
        self._input, self.output = directory / "input.txt", directory / "output.txt"
        self._input.write_text("a line\n")
        servers = cluster.bootstrap_servers
        create_topic(servers, name=self.read)
        produce(servers, self.read, [Record(b"not JSON"), Record(b'"good"')])
        if without is not None and without.operation is Operation.DESCRIBE_CONFIGS:
            # The configs of a topic that it creates are known to it.
            name = self._own(without).pattern.name
            create_topic(servers, name=name, configs={"cleanup.policy": "compact"})
        features = {*_PLAIN, Feature.EXACTLY_ONCE} if once else set(_PLAIN)
        if standalone:
            features = _STANDALONE
        forget(cluster, WORKERS_USER)
        for feature in features:
            for each in required_permissions(WORKER_NAMES, {feature}):
                if each != without:
                    grant(cluster, WORKERS_USER, [granted(self._own(each))])
        mine = login(cluster, WORKERS_USER)
        logins = {
            f"{prefix}{key}": value
            for prefix in ("", "producer.", "consumer.", "admin.")
            for key, value in mine.items()
        }
        extra = {
            **logins,
            "exactly.once.source.support": "enabled" if once else "disabled",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
        }
        properties = worker_properties(mine["bootstrap.servers"], self.group, extra)
        program = "api.cli.standalone" if standalone else "api.cli.distributed"
        if standalone:
            properties = {
                key: value for key, value in properties.items() if not key.startswith(_OF_GROUPS)
            }
            properties["offset.storage.file.filename"] = str(directory / "offsets")
        self.worker = GroupWorker(1, properties, directory, directory, [program])
        self.log = directory / "worker-1.log"

    def _words(self) -> dict[str, str]:
        """What the page has for names."""
        return {
            f"{self.group}-offsets": "<offsets topic>",
            f"{self.group}-status": "<status topic>",
            f"{self.group}-configs": "<config topic>",
            f"connect-{self._sink}": "connect-<name>",
            self.group: "<group.id>",
            self.aside: "<dead letters>",
            self._sink: "<name>",
            self._source: "<name>",
        }

    def _own(self, permission: RequiredPermission) -> RequiredPermission:
        """The permission in names of this worker."""
        sinks = permission.feature is Feature.SINK
        names = {"<topics>": self.read if sinks else self.written}
        text = permission.pattern.name
        for own, word in {**self._words(), **{own: word for word, own in names.items()}}.items():
            text = text.replace(word, own)
        return permission._replace(pattern=permission.pattern._replace(name=text))

    def in_words_of_the_page(self, text: str) -> str:
        for own, word in {
            **self._words(),
            self.read: "orders",
            self.written: "orders",
        }.items():
            text = text.replace(own, word)
        return without_numbers(text)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the worker runs; its connectors are created as soon as it can."""
        stop = threading.Event()
        # A worker that cannot write its config topic answers after 90 s.
        creating = threading.Thread(target=self._create_connectors, args=[stop], daemon=True)
        try:
            self.worker.start()
            creating.start()
            yield
        finally:
            stop.set()
            self.worker.close()
            creating.join(_SOON_S)

    def _create_connectors(self, stop: threading.Event) -> None:
        wanted = self._connectors()
        while wanted and not stop.wait(_PAUSE_S):
            for name, config in list(wanted.items()):
                with suppress(OSError, HTTPException):
                    path = f"/connectors/{name}/config"
                    if call(self.worker.url, "PUT", path, config).status < 300:
                        del wanted[name]

    def _connectors(self) -> dict[str, dict[str, str]]:
        return {
            self._source: {
                "connector.class": "FileStreamSource",
                "file": str(self._input),
                "topic": self.written,
                "value.converter": _TEXT,
                "topic.creation.default.partitions": "1",
                "topic.creation.default.replication.factor": "1",
            },
            self._sink: {
                "connector.class": "FileStreamSink",
                "file": str(self.output),
                "topics": self.read,
                "value.converter": _JSON,
                "value.converter.schemas.enable": "false",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": self.aside,
                "errors.deadletterqueue.topic.replication.factor": "1",
            },
        }

    def works(self) -> bool:
        """Whether both connectors did what they should."""
        servers = self._cluster.bootstrap_servers
        return (
            all(has_topic(servers, name) for name in (self.written, self.aside))
            and end_offset(servers, self.written) > 0
            and end_offset(servers, self.aside) > 0
            and self.output.exists()
            and "good" in self.output.read_text()
        )

    def sentences(self) -> set[str]:
        """What the log, `/health` and the statuses say, in the page's words."""
        texts = log_texts(self.log)
        for path in ("/health", "/connectors?expand=status"):
            with suppress(OSError):
                texts += call(self.worker.url, "GET", path).body.decode().split('"')
        return {self.in_words_of_the_page(text) for text in texts}


def worker_said(
    cluster: KafkaCluster,
    row: WorkerRow,
    directory: Path,
    wanted: Callable[[set[str]], bool] = bool,
) -> set[str]:
    """The sentences that name the row's permission, in the page's words, once they are
    `wanted`."""
    once = row.permission.feature is Feature.EXACTLY_ONCE
    guarded = GuardedWorker(
        cluster, directory, once=once, standalone=row.standalone, without=row.permission
    )
    found: set[str] = set()

    def heard() -> bool:
        # Of some it says so and ends.
        ended = not guarded.worker.running
        found.update(each for each in guarded.sentences() if named_by(row.permission, each))
        assert wanted(found) or not ended, guarded.log.read_text()
        return wanted(found)

    with guarded.running():
        wait_until(heard, _SOON_S, f"{row.key} is named; see {guarded.log}")
    return found
