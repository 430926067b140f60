"""Finds the consumer groups of the source that a flow translates, periodically.

One loop with its own thread. At start, then every `refresh.groups.interval.seconds`, it lists the
source's groups, reads their committed offsets, and notifies the connector if the set has changed. A
group is included if the filter selects it and it committed an offset of a mirrored topic. The first
round also creates the checkpoints topic on the target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from connect.clients.groups.consumer_groups import Committed, ConsumerGroups
from connect.clock import Deadline
from connect.errors import ConnectError
from connectors.mirror.background.cluster_loop import STOP_TIMEOUT_S, cluster_loop
from connectors.mirror.background.status_messages import StatusMessages
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF, CheckpointConfig
from connectors.mirror.filters import (
    GroupFilter,
    PatternList,
    TopicFilter,
    group_filter,
    topic_filter,
)
from connectors.mirror.replication_policy import replication_policy
from connectors.mirror.topics.create import create_own_topic
from connectors.mirror.topics.forwarding_admin import forwarding_admin

__all__ = ["GroupRefresh", "assignable", "chunks", "mirrored_groups"]

log = logging.getLogger(__name__)


def mirrored_groups(
    committed: Mapping[str, Mapping[tuple[str, int], Committed] | ConnectError],
    topics: TopicFilter,
) -> list[str]:
    """Return the groups that committed an offset of a mirrored topic, sorted. A group whose offsets
    could not be read is included, so that one failed read does not drop it."""
    return sorted(
        group
        for group, offsets in committed.items()
        if isinstance(offsets, ConnectError)
        or any(topics.should_replicate_topic(topic) for topic, _ in offsets)
    )


def assignable(group: str) -> bool:
    """Whether a group ID can be part of `task.assigned.groups`, a list in Java's format: commas
    separate the elements, and blanks around an element are dropped."""
    return bool(group) and "," not in group and group == group.strip()


def chunks(groups: Sequence[str], max_tasks: int) -> list[list[str]]:
    """Divide the groups among tasks in contiguous chunks, as Java does. There are at most as many
    tasks as groups. Sizes differ by at most one, larger chunks first."""
    count = min(max_tasks, len(groups))
    if count == 0:
        return []
    size, larger = divmod(len(groups), count)
    cut: list[list[str]] = []
    at = 0
    for index in range(count):
        end = at + size + (index < larger)
        cut.append(list(groups[at:end]))
        at = end
    return cut


class GroupRefresh:
    """The loop of one flow. The owner calls `start` and `stop` once each. Any thread may read
    `groups`. The callbacks run on the loop's thread."""

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        on_change: Callable[[], None],
        on_failure: Callable[[Exception], None],
        on_trouble: Callable[[str | None], None],
    ) -> None:
        """`on_change`: the groups changed. `on_failure`: an invalid config ended the loop.
        `on_trouble`: the current problem, or None once it is resolved. Raises `ConfigError`."""
        self._config = config
        self._flow = config.flow
        self._timeout = config.admin_timeout_ms / 1000
        self._topic_filter = topic_filter(config.originals)
        self._group_filter: GroupFilter = group_filter(config.originals)
        patterns = PatternList.from_key(CHECKPOINT_CONFIG_DEF, "groups", config.originals)
        self._literal_groups = patterns.literals()
        self._on_change = on_change
        self._groups: list[str] | None = None
        self._refused: set[str] = set()
        self._topic_ready = False
        troubles = StatusMessages(on_trouble)
        self._groups_in_trouble = troubles.part("groups")
        self._loop = cluster_loop(
            f"Group refresh of {self._flow}",
            self._step,
            config.refresh_groups_interval_s,
            on_failure,
            on_trouble=troubles.part("loop"),
        )

    @property
    def groups(self) -> list[str] | None:
        """Return the translated groups, sorted; None before the first result."""
        return self._groups

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop(STOP_TIMEOUT_S)

    def _step(self) -> None:
        if not self._topic_ready:
            self._create_topic()
        deadline = Deadline(self._timeout)
        # Rounds are far apart, so connections and threads are not kept in between.
        with closing(
            ConsumerGroups(client_configs.checkpoint_source_admin(self._config.originals))
        ) as source:
            # A listing lacks the groups that we may not describe. Those that the config names one
            # by one are asked for all the same, so that the refusal is known.
            groups = {*source.list_groups(deadline), *self._literal_groups}
            wanted = self._assignable(
                group
                for group in sorted(groups)
                if self._group_filter.should_replicate_group(group)
            )
            committed = source.committed(wanted, deadline)
        self._report_failures(committed)
        self._publish(mirrored_groups(committed, self._topic_filter))

    def _create_topic(self) -> None:
        config = self._config
        create_own_topic(
            forwarding_admin(
                config.originals, client_configs.checkpoint_target_admin(config.originals)
            ),
            replication_policy(config.originals).checkpoints_topic(config.source_cluster_alias),
            config.checkpoints_topic_replication_factor,
            "checkpoints.topic.replication.factor",
            self._timeout,
        )
        self._topic_ready = True

    def _assignable(self, groups: Iterable[str]) -> list[str]:
        found: list[str] = []
        refused: list[str] = []
        for group in groups:
            (found if assignable(group) else refused).append(group)
        if set(refused) - self._refused:
            log.warning(
                "%s: not translating groups whose IDs contain commas or start or end with"
                " blanks, because they cannot be assigned to tasks; rename them, or "
                "exclude them by groups.exclude: %s",
                self._flow,
                ", ".join(map(repr, refused)),
            )
        self._refused = set(refused)
        return found

    def _report_failures(
        self, committed: Mapping[str, Mapping[tuple[str, int], Committed] | ConnectError]
    ) -> None:
        failed = [(g, found) for g, found in committed.items() if isinstance(found, ConnectError)]
        if not failed:
            self._groups_in_trouble(None)
            return
        group, error = failed[0]
        text = f"cannot read the offsets of {len(failed)} groups, for example {group}: {error}"
        log.warning("%s: %s", self._flow, text)
        self._groups_in_trouble(text)

    def _publish(self, found: list[str]) -> None:
        if found == self._groups:
            return
        self._groups = found
        log.info("%s: translating the offsets of %d consumer groups", self._flow, len(found))
        self._on_change()
