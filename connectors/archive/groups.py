"""The committed offsets of consumer groups, which an archive keeps beside the records.

After a restore they become checkpoints of the flow, as MirrorMaker 2 writes them. So the groups
continue in the restored copy, also if the source is gone: `connect-mirror translate` and the
clients of checkpoints know where.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import closing

from connect.clients.groups.consumer_groups import ConsumerGroups
from connect.clients.librdkafka.record_sender import RecordSender
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import ConnectError, RetriableError
from connectors.archive.errors import DamagedArchive
from connectors.archive.files import ArchiveFiles
from connectors.archive.ledger import Ledger
from connectors.mirror.checkpoints.store import CheckpointReader
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.filters import DefaultGroupFilter, group_filter
from connectors.mirror.formats import Checkpoint
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.offsets.translator import (
    GroupOffset,
    InProcessTranslator,
    translation_topics,
)
from connectors.mirror.replication_policy import replication_policy
from connectors.mirror.topics.create import ensure_compacted_topic
from connectors.mirror.topics.forwarding_admin import forwarding_admin

__all__ = ["GroupArchive", "committed_offsets", "restore_groups"]

_LOG = logging.getLogger(__name__)

_FOLDER = "groups"
_FACTOR = "checkpoints.topic.replication.factor"
_ASK_S = 60.0
_WRITE_S = 60.0
_CLOSE_S = 2.0


class GroupArchive:
    """The newest offsets of each group, in one file that is replaced. For one thread."""

    def __init__(self, files: ArchiveFiles) -> None:
        self._files = files
        names = [name for name in files.names(_FOLDER) if not name.startswith(("_", "."))]
        self._newest = names[-1] if names else None
        self.offsets: list[GroupOffset] = []
        if self._newest is not None:
            self.offsets = _parsed(files.read(f"{_FOLDER}/{self._newest}"), self._newest)

    def save(self, offsets: Iterable[GroupOffset]) -> None:
        """Replace the offsets, if they have changed. A crash leaves the old ones, or both files, of
        which the newer one counts."""
        found = sorted(offsets)
        if found == self.offsets:
            return
        name = f"{SYSTEM_CLOCK.now_ms():020d}.json"
        text = json.dumps([each._asdict() for each in found], indent=1) + "\n"
        if not self._files.publish(f"{_FOLDER}/{name}", text):
            return
        if self._newest is not None:
            self._files.delete(f"{_FOLDER}/{self._newest}")
        self._newest, self.offsets = name, found


def _parsed(text: str, name: str) -> list[GroupOffset]:
    try:
        return [GroupOffset(**each) for each in json.loads(text)]
    except (TypeError, ValueError) as error:
        raise DamagedArchive(
            f"{name} is not a file of group offsets ({error}): restore it from a copy of the "
            "directory, or delete it and archive again"
        ) from error


def committed_offsets(flow: DedicatedFlow, topics: Iterable[str]) -> list[GroupOffset]:
    """Return what the flow's groups have committed on the source for these topics. Groups that may
    not be read are logged and left out."""
    wanted, of_flow = set(topics), group_filter(flow.config.originals)
    deadline = Deadline(_ASK_S)
    with closing(ConsumerGroups(client_configs.source_admin(flow.properties))) as groups:
        names = set(groups.list_groups(deadline))
        if isinstance(of_flow, DefaultGroupFilter):
            # Brokers leave groups that a user may not describe out of the list.
            names.update(of_flow.include.literals())
        asked = sorted(filter(of_flow.should_replicate_group, names))
        answers = groups.committed(asked, deadline)
    found: list[GroupOffset] = []
    for group, offsets in answers.items():
        if isinstance(offsets, ConnectError):
            _LOG.warning("The offsets of group %s are not archived: %s", group, offsets)
            continue
        found += [
            GroupOffset(group, topic, partition, each.offset, each.metadata)
            for (topic, partition), each in offsets.items()
            if topic in wanted and each.offset is not None
        ]
    return found


def restore_groups(flow: DedicatedFlow, ledger: Ledger, offsets: Iterable[GroupOffset]) -> int:
    """Write a checkpoint for each of these offsets whose partition was restored, unless the flow
    has a later one. Returns how many.

    A group that had read more than is archived continues at the end of the restored copy.
    """
    wanted = [
        each._replace(offset=min(each.offset, end))
        for each in offsets
        if (end := ledger.end((each.topic, each.partition))) is not None
    ]
    checkpoints = _translated(flow, wanted)
    if not checkpoints:
        return 0
    alias = flow.config.source_cluster_alias
    topic = replication_policy(flow.config.originals).checkpoints_topic(alias)
    factor = CHECKPOINT_CONFIG_DEF.keys[_FACTOR].parse(dict(flow.properties))
    assert isinstance(factor, int)
    client = client_configs.target_admin(flow.properties)
    with closing(forwarding_admin(flow.properties, client)) as admin:
        timeout = flow.config.admin_timeout_ms / 1000
        later: dict[tuple[str, str, int], int] = {}
        if not ensure_compacted_topic(admin, topic, factor, timeout):
            later = _upstream_offsets(flow, topic)
    due = [
        each
        for each in checkpoints
        if later.get((each.group, each.topic, each.partition), -1) < each.upstream_offset
    ]
    _write(flow.client("restore-groups"), topic, due)
    return len(due)


def _upstream_offsets(flow: DedicatedFlow, topic: str) -> dict[tuple[str, str, int], int]:
    """Return the source offset of each checkpoint that the flow has."""
    found: dict[tuple[str, str, int], int] = {}

    def take(each: Checkpoint) -> None:
        found[each.group, each.topic, each.partition] = each.upstream_offset

    client = client_configs.checkpoints_consumer(flow.properties)
    CheckpointReader(topic, client, take, lambda _: True).run(Deadline(_ASK_S))
    return found


def _translated(flow: DedicatedFlow, wanted: list[GroupOffset]) -> list[Checkpoint]:
    if not wanted:
        return []
    policy = replication_policy(flow.config.originals)
    alias = flow.config.source_cluster_alias
    deadline = Deadline(_ASK_S)
    translator = InProcessTranslator(translation_topics(flow.properties))
    try:
        translator.open(deadline, need_syncs=False)
        places = translator.translate(wanted, deadline)
    finally:
        translator.close(Deadline(_CLOSE_S))
    return [
        Checkpoint(
            each.group,
            policy.remote_topic(alias, each.topic),
            each.partition,
            each.offset,
            place.offset,
            each.metadata,
        )
        for each, place in zip(wanted, places, strict=True)
        if place is not None
    ]


def _write(client: Mapping[str, str], topic: str, checkpoints: Iterable[Checkpoint]) -> None:
    deadline = Deadline(_WRITE_S)
    sender = RecordSender({**client, "acks": "all", "enable.idempotence": "true"})
    try:
        written = [sender.send_future(topic, each.key(), each.value()) for each in checkpoints]
        if not sender.flush(deadline):
            raise RetriableError(
                f"Writing checkpoints to {topic} took longer than {_WRITE_S:.0f} s: start the "
                "restore again"
            )
        for future in written:
            future.result(timeout=0)
    finally:
        sender.close(Deadline(_CLOSE_S))
