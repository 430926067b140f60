"""What `kafka-mirror-maker` says when one permission of the table is left out of those that it
needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from connectors.mirrormaker.required_permissions import (
    Feature,
    RequiredPermission,
    required_permissions,
)
from deploy.brokers import KafkaCluster
from deploy.site.permissions_reference import MIRRORMAKER_1_NAMES
from tests.support.flows.mirrormaker1 import files, mm1
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, end_offset, has_topic, unique
from tests.support.security.guarded_flow import granted
from tests.support.security.permissions import forget, grant, login
from tests.support.security.taken_permissions import (
    MIRRORMAKER_1_USER,
    log_texts,
    named_by,
    without_numbers,
)
from tests.support.waiting import wait_until

__all__ = [
    "COPIED",
    "MirrorMaker1Row",
    "mirrormaker1_copies",
    "mirrormaker1_rows",
    "mirrormaker1_said",
]

COPIED = 20
_SOON_S, _STOP_S = 60.0, 20.0
_FEATURES = {Feature.MIRRORMAKER_1}


class MirrorMaker1Row(NamedTuple):
    """A permission that `kafka-mirror-maker` lacks, in the names of the page."""

    permission: RequiredPermission

    @property
    def key(self) -> tuple[str, str, str]:
        """Program, cluster and permission, as the page has them."""
        return Feature.MIRRORMAKER_1.value, self.permission.cluster, str(self.permission)


def mirrormaker1_rows() -> Iterator[MirrorMaker1Row]:
    """All that is tried."""
    for permission in required_permissions(MIRRORMAKER_1_NAMES, _FEATURES):
        yield MirrorMaker1Row(permission)


class _Run:
    """One run, with a topic and a group of its own."""

    def __init__(
        self,
        clusters: tuple[KafkaCluster, KafkaCluster],
        directory: Path,
        without: RequiredPermission | None,
    ) -> None:
        self.source, self.target = clusters
        self.topic, self.group = unique("orders"), unique("readers")
        self._directory = directory
        create_topic(self.source.bootstrap_servers, name=self.topic)
        produce(self.source.bootstrap_servers, self.topic, numbered(COPIED))
        for cluster in clusters:
            forget(cluster, MIRRORMAKER_1_USER)
        for each in required_permissions(MIRRORMAKER_1_NAMES, _FEATURES):
            if each != without:
                mine = each._replace(pattern=each.pattern._replace(name=self._own(each)))
                grant(
                    self.source if each.cluster == "A" else self.target,
                    MIRRORMAKER_1_USER,
                    [granted(mine)],
                )

    def _own(self, permission: RequiredPermission) -> str:
        return {"<topics>": self.topic, "<group.id>": self.group}[permission.pattern.name]

    @property
    def options(self) -> list[str]:
        here, there = login(self.source, MIRRORMAKER_1_USER), login(self.target, MIRRORMAKER_1_USER)
        servers = here.pop("bootstrap.servers"), there.pop("bootstrap.servers")
        made = files(self._directory, *servers, self.group, here, there)
        return [*made, "--include", self.topic]

    def in_words_of_the_page(self, text: str) -> str:
        for own, word in ((self.topic, "orders"), (self.group, "<group.id>")):
            text = text.replace(own, word)
        return without_numbers(text)


def mirrormaker1_copies(
    clusters: tuple[KafkaCluster, KafkaCluster], directory: Path, log: Path
) -> str:
    """Copy a topic with all permissions of the table and no others. Returns the log."""
    run = _Run(clusters, directory, None)
    target = run.target.bootstrap_servers

    def copied() -> bool:
        return has_topic(target, run.topic) and end_offset(target, run.topic) == COPIED

    with mm1(run.options, log) as mirror:
        wait_until(copied, _SOON_S, f"{COPIED} records of {run.topic}")
        assert mirror.stop(_STOP_S) == 0, log.read_text()
    return log.read_text()


def mirrormaker1_said(
    clusters: tuple[KafkaCluster, KafkaCluster], row: MirrorMaker1Row, directory: Path, log: Path
) -> set[str]:
    """The lines of its log that name the row's permission, in the page's words."""
    run = _Run(clusters, directory, row.permission)
    found: set[str] = set()

    def heard() -> bool:
        lines = {run.in_words_of_the_page(line) for line in log_texts(log)}
        found.update(line for line in lines if named_by(row.permission, line))
        return bool(found)

    with mm1(run.options, log):
        wait_until(heard, _SOON_S, f"{row.key} is named; see {log}")
    return found
