"""Moves consumer groups from one cluster to another: translates their offsets and commits them.

A group on cluster X reads two kinds of topics: topics of X, which a flow X->Y copies to Y
(failover), and copies of topics of Y, which a flow Y->X made (failback). For both, the translated
offset is an offset on Y. While X answers, the groups' committed offsets are translated. Otherwise
the checkpoints on Y are used, which date from the mirror's last checkpoint round; if Y also hosts
the offset map, the checkpoints' source offsets are translated again by the map, which may know more
by now. Topics that no flow copies are left out.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from connect.clients.errors import broker_code, not_authorized
from connect.clients.groups.consumer_groups import Committed, ConsumerGroups
from connect.clients.librdkafka.admin import Admin
from connect.clients.wire.bootstrap_probe import need_login
from connect.clock import Deadline
from connect.config.java_regex import TextPattern
from connect.errors import ConnectError
from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import TopicPartition
from connectors.mirror.checkpoints.store import CheckpointReader
from connectors.mirror.config import clients as client_configs
from connectors.mirror.filters import DefaultTopicFilter, topic_filter
from connectors.mirror.formats import Checkpoint
from connectors.mirror.inspect.cluster_queries import refuse_hidden
from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import (
    GroupOffset,
    InProcessTranslator,
    translation_topics,
)
from connectors.mirror.replication_policy import replication_policy
from connectors.mirror.topics.clusters import contact

__all__ = ["FlowProps", "MoveClusters", "MovePlan", "MovedOffset", "commit_moves", "plan_move"]

_LOG = logging.getLogger(__name__)

_NAME = re.compile(r"[\w.-]+")
"""A pattern that is the plain ID of one group."""

_CLOSE_S = 2.0
_CONTACT_S = 8.0
"""Timeout for a cluster's first response. A cluster that takes longer counts as unreachable."""

FlowProps = Mapping[str, str]
"""A flow's resolved connector properties: aliases, replication policy, location of the offset-syncs
topic, and the client properties of both clusters."""


@dataclass(frozen=True, slots=True)
class MovedOffset:
    """The new offset of one partition of a group.

    `topic`: the topic's name on the old cluster; `new_topic`: its name on the new cluster.
    `offset`: the group's committed offset. `new_offset`: the translated offset; None if no
    translation is known. `again`: the maximum number of records on the new cluster that the group
    re-reads; None if not known. `later`: the maximum number that it also re-reads once they are
    copied, because it is ahead of the copy. `has`: the group's committed offset on the new cluster.
    `end`: the log end offset on the new cluster.
    """

    group: str
    topic: str
    new_topic: str
    partition: int
    offset: int
    new_offset: int | None
    again: int | None
    metadata: str = ""
    has: int | None = None
    end: int | None = None
    later: int = 0

    @property
    def is_ahead(self) -> bool:
        """Whether the commit moves the group forward."""
        return self.new_offset is not None and (self.has is None or self.has < self.new_offset)

    @property
    def goes_back(self) -> bool:
        """Whether the commit would move the group back: on the new cluster it is further ahead."""
        return self.new_offset is not None and self.has is not None and self.has > self.new_offset


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The new offsets of all groups, by group and partition.

    `live`: the offsets were translated from committed offsets, rather than taken from checkpoints.
    `unreadable`: the groups whose offsets could not be read, with the reasons.
    """

    offsets: Sequence[MovedOffset]
    live: bool
    unreadable: Mapping[str, str]

    @property
    def ahead(self) -> dict[str, int]:
        """Return the groups that are further ahead on the new cluster than the translation, with
        the number of their partitions."""
        return dict(Counter(row.group for row in self.offsets if row.goes_back))


class MoveClusters(NamedTuple):
    """The connector properties of the existing flows between two clusters: `forwards` from X to Y,
    and `back` from Y to X."""

    there: FlowProps | None
    back: FlowProps | None


class _Target(NamedTuple):
    """An offset to translate: the flow that can translate it, and the partition on the new
    cluster."""

    row: MovedOffset
    backwards: bool


def plan_move(
    clusters: MoveClusters, groups: TextPattern, deadline: Deadline, *, live: bool
) -> MovePlan:
    """Translate the offsets of all groups whose whole ID matches. `live=False` uses checkpoints.

    Raises `ConnectError`, for example if X does not answer and `live=True` was requested.
    """
    need_login(_admin(clusters, "to"), Deadline(min(_CONTACT_S, deadline.remaining())))
    plan = _live(clusters, groups, deadline) if live else _checkpointed(clusters, groups, deadline)
    return replace(plan, offsets=_completed(clusters, plan.offsets, deadline))


def _live(clusters: MoveClusters, groups: TextPattern, deadline: Deadline) -> MovePlan:
    _contact(clusters, deadline)
    with closing(ConsumerGroups(_admin(clusters, "from"))) as source:
        wanted = {group for group in source.list_groups(deadline) if groups.fullmatch(group)}
        # A listing leaves out what the user may not describe.
        if _NAME.fullmatch(groups.pattern):
            wanted.add(groups.pattern)
        found = source.committed(sorted(wanted), deadline)
    hidden = _hidden_topics(clusters)
    unreadable: dict[str, str] = {} if hidden is None else dict.fromkeys(found, hidden)
    unreadable |= {g: str(each) for g, each in found.items() if isinstance(each, ConnectError)}
    targets = [
        target
        for group, offsets in found.items()
        if not isinstance(offsets, ConnectError)
        for target in _targets(clusters, group, offsets)
    ]
    forwards = _forwards(clusters.there, [t.row for t in targets if not t.backwards], deadline)
    backwards = _backwards(clusters.back, [t.row for t in targets if t.backwards], deadline)
    return MovePlan([*forwards, *backwards], True, unreadable)


def _contact(clusters: MoveClusters, deadline: Deadline) -> None:
    """Raise within a short timeout if the groups' cluster does not answer."""
    props = _admin(clusters, "from")
    with closing(Admin(props)) as admin:
        contact(admin, "of the groups", props, min(_CONTACT_S, max(1.0, deadline.remaining())))


def _hidden_topics(clusters: MoveClusters) -> str | None:
    """Return why offsets of some topics cannot be seen that the flow names one by one; None if
    they all can. The brokers leave such topics out of a group's offsets."""
    topics = None if clusters.there is None else topic_filter(clusters.there)
    if not isinstance(topics, DefaultTopicFilter):
        return None
    with closing(Admin(_admin(clusters, "from"))) as admin:
        return _hidden(admin, topics.include.literals())


def _hidden(admin: Admin, topics: Collection[str]) -> str | None:
    """Return which of these topics the user may not describe, and what to grant; None: none."""
    try:
        refuse_hidden(admin, topics, "Describe")
    except ConnectError as error:
        if not_authorized(error):
            return str(error)
        raise
    return None


def _targets(
    clusters: MoveClusters, group: str, offsets: Mapping[TopicPartition, Committed]
) -> Iterable[_Target]:
    for (topic, partition), committed in offsets.items():
        if committed.offset is None:
            continue
        for flow, backwards in ((clusters.back, True), (clusters.there, False)):
            new_topic = None if flow is None else _new_name(flow, topic, backwards=backwards)
            if new_topic is not None:
                row = MovedOffset(
                    group,
                    topic,
                    new_topic,
                    partition,
                    committed.offset,
                    None,
                    None,
                    committed.metadata,
                )
                yield _Target(row, backwards)
                break


def _new_name(flow: FlowProps, topic: str, *, backwards: bool) -> str | None:
    """The topic's name on the new cluster; None if this flow does not copy it."""
    policy = replication_policy(flow)
    source, target = flow["source.cluster.alias"], flow["target.cluster.alias"]
    if policy.is_internal_topic(topic):
        return None
    if backwards:
        original = policy.upstream_topic(topic) if policy.topic_source(topic) == source else None
        return original if original and _is_copied(flow, original) else None
    if policy.topic_source(topic) == target or not _is_copied(flow, topic):
        return None
    return policy.remote_topic(source, topic)


def _is_copied(flow: FlowProps, topic: str) -> bool:
    return topic_filter(flow).should_replicate_topic(topic)


def _forwards(
    flow: FlowProps | None, rows: list[MovedOffset], deadline: Deadline
) -> list[MovedOffset]:
    if flow is None or not rows:
        return rows
    places = _places(flow, rows, deadline)
    return [_placed(row, place) for row, place in zip(rows, places, strict=True)]


def _places(
    flow: FlowProps, rows: Sequence[MovedOffset], deadline: Deadline
) -> Sequence[Place | None]:
    """Translate the source offsets of these rows with the flow's offset map and offset syncs."""
    translator = InProcessTranslator(translation_topics(flow))
    try:
        translator.open(deadline, need_syncs=False)
        wanted = [GroupOffset(r.group, r.topic, r.partition, r.offset, r.metadata) for r in rows]
        places = translator.translate(wanted, deadline)
        if translator.map_refused is not None:
            _LOG.error("Offsets are less exact, without the offset map: %s", translator.map_refused)
        return places
    finally:
        translator.close(Deadline(_CLOSE_S))


def _backwards(
    flow: FlowProps | None, rows: list[MovedOffset], deadline: Deadline
) -> list[MovedOffset]:
    if flow is None or not rows:
        return rows
    wanted: dict[TopicPartition, set[int]] = defaultdict(set)
    for row in rows:
        wanted[row.new_topic, row.partition].add(row.offset)
    translator = InProcessTranslator(translation_topics(flow), backwards=True)
    try:
        translator.open(deadline, need_syncs=False)
        places = {
            partition: translator.translate_back(partition, offsets)
            for partition, offsets in wanted.items()
        }
    finally:
        translator.close(Deadline(_CLOSE_S))
    return [_placed(row, places[row.new_topic, row.partition].get(row.offset)) for row in rows]


def _placed(row: MovedOffset, place: Place | None) -> MovedOffset:
    if place is None:
        return row
    return replace(row, new_offset=place.offset, again=place.behind)


def _checkpointed(clusters: MoveClusters, groups: TextPattern, deadline: Deadline) -> MovePlan:
    """Return the offsets in the forward flow's checkpoints, refined by the offset map where that is
    more exact.

    The groups may have committed since. How many records they re-read is therefore not known.
    """
    flow = clusters.there
    if flow is None:
        return MovePlan([], False, {})
    policy = replication_policy(flow)
    found: dict[tuple[str, str, int], Checkpoint] = {}

    def take(checkpoint: Checkpoint) -> None:
        found[checkpoint.group, checkpoint.topic, checkpoint.partition] = checkpoint

    CheckpointReader(
        policy.checkpoints_topic(flow["source.cluster.alias"]),
        client_configs.checkpoints_consumer(flow),
        take,
        lambda group: groups.fullmatch(group) is not None,
    ).run(deadline)
    rows = [
        MovedOffset(
            each.group,
            policy.upstream_topic(each.topic) or each.topic,
            each.topic,
            each.partition,
            each.upstream_offset,
            each.downstream_offset,
            None,
            each.metadata,
        )
        for each in found.values()
    ]
    return MovePlan(_corrected(flow, rows, deadline), False, {})


def _corrected(
    flow: FlowProps, rows: list[MovedOffset], deadline: Deadline
) -> Sequence[MovedOffset]:
    """Replace checkpoints by the map's places where those are exact, and where the target lost
    records after the checkpoint. Only a map on the new cluster is read: the old one may be gone."""
    if not rows or client_configs.offset_syncs_side(flow) != "target":
        return rows
    try:
        places = _places(flow, rows, deadline)
    except ConnectError as error:
        if not_authorized(error):
            return rows  # Permissions for the checkpoints alone have to do.
        raise
    return [_correct(row, place) for row, place in zip(rows, places, strict=True)]


def _correct(row: MovedOffset, place: Place | None) -> MovedOffset:
    if place is None or row.new_offset is None:
        return row
    after_loss = place.loss > 0 and place.offset < row.new_offset
    return replace(row, new_offset=place.offset) if place.exact or after_loss else row


def _completed(
    clusters: MoveClusters, rows: Sequence[MovedOffset], deadline: Deadline
) -> list[MovedOffset]:
    """Add the groups' committed offsets on the new cluster, and the log end offsets there."""
    known = [row for row in rows if row.new_offset is not None]
    props = _admin(clusters, "to")
    target, admin = ConsumerGroups(props), Admin(props)
    try:
        committed = target.committed({row.group for row in known}, deadline)
        topics = admin.list_topics(max(1.0, deadline.remaining()))
        reason = _hidden(admin, {row.new_topic for row in known} - topics.keys())
        if reason is not None:
            _LOG.error("The groups' offsets on the new cluster are not all known: %s", reason)
        ends = admin.end_offsets(
            {
                (row.new_topic, row.partition)
                for row in known
                if row.partition < topics.get(row.new_topic, 0)
            },
            max(1.0, deadline.remaining()),
        )
    finally:
        target.close()
        admin.close()
    completed = [_complete(row, committed.get(row.group), ends) for row in rows]
    return sorted(completed, key=lambda row: (row.group, row.new_topic, row.partition))


def _complete(
    row: MovedOffset,
    committed: Mapping[TopicPartition, Committed] | ConnectError | None,
    ends: Mapping[TopicPartition, int],
) -> MovedOffset:
    if isinstance(committed, ConnectError):
        raise committed
    key = (row.new_topic, row.partition)
    has = (committed or {}).get(key)
    end = ends.get(key)
    again, later = row.again, 0
    if again is not None and end is not None and row.new_offset is not None:
        again = min(again, max(0, end - row.new_offset))
        later = (row.again or 0) - again
    return replace(row, has=None if has is None else has.offset, end=end, again=again, later=later)


def commit_moves(
    clusters: MoveClusters, rows: Iterable[MovedOffset], deadline: Deadline, *, rewind: bool
) -> dict[str, str | None]:
    """Commit the new offsets. Without `rewind`, commit only offsets that move a group forward.

    Returns, for each group written to, the error message or None. A broker refuses commits for a
    group that has members on the new cluster; the error message says so.
    """
    writes: dict[str, dict[TopicPartition, Committed]] = defaultdict(dict)
    for row in rows:
        if row.is_ahead or (rewind and row.new_offset not in (None, row.has)):
            key = (row.new_topic, row.partition)
            writes[row.group][key] = Committed(row.new_offset, row.metadata)
    outcome: dict[str, str | None] = {}
    if not writes:
        return outcome
    with closing(ConsumerGroups(_admin(clusters, "to"))) as target:
        states = target.list_groups(deadline, writes)
        for group in list(writes):
            listing = states.get(group)
            if listing is not None and not listing.empty and not listing.dead:
                outcome[group] = _has_members(group)
                del writes[group]
        refused = target.commit(writes, deadline)
        for group in writes:
            error = refused.get(group)
            if error is None:
                outcome[group] = None
            elif broker_code(error) == ErrorCode.UNKNOWN_MEMBER_ID:
                outcome[group] = _has_members(group)
            else:
                outcome[group] = str(error)
    return outcome


def _has_members(group: str) -> str:
    return f"group {group} has members on the new cluster: stop its consumers there and try again"


def _admin(clusters: MoveClusters, which: str) -> dict[str, str]:
    """Return the admin client properties of the old cluster (`from`) or the new one (`to`)."""
    if clusters.there is not None:
        side, flow = ("source" if which == "from" else "target"), clusters.there
    else:
        assert clusters.back is not None, "no flow is configured between the clusters"
        side, flow = ("target" if which == "from" else "source"), clusters.back
    if side == "source":
        return client_configs.checkpoint_source_admin(flow)
    return client_configs.checkpoint_target_admin(flow)
