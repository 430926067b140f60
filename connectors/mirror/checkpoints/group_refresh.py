"""Keeps knowing which consumer groups of the source a flow translates.

One loop with a thread of its own: at start, then at `refresh.groups.interval.seconds`, list the
source's groups, read what they committed, and tell the connector when the set changed. A group
counts when the filter takes it and it committed an offset of a topic that is mirrored. The first
round also creates the checkpoints topic on the target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from connect.clients.groups.consumer_groups import Committed, ConsumerGroups
from connect.clients.librdkafka.admin import Admin
from connect.clock import Deadline
from connect.errors import ConfigError, ConnectError
from connectors.mirror.background.cluster_loop import STOP_TIMEOUT_S, cluster_loop
from connectors.mirror.background.status_messages import Troubles
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.checkpoint import CheckpointConfig
from connectors.mirror.filters import GroupFilter, TopicFilter, group_filter, topic_filter
from connectors.mirror.replication_policy import replication_policy
from connectors.mirror.topics.create import ensure_compacted_topic, with_remedy

__all__ = ["GroupRefresh", "assignable", "chunks", "mirrored_groups"]

log = logging.getLogger(__name__)

TOPIC_FACTOR_KEY = "checkpoints.topic.replication.factor"


def mirrored_groups(
    committed: Mapping[str, Mapping[tuple[str, int], Committed] | ConnectError],
    topics: TopicFilter,
) -> list[str]:
    """The groups that committed an offset of a mirrored topic, sorted. One that could not be asked
    counts, so that it is not dropped for a moment's failure."""
    return sorted(
        group
        for group, offsets in committed.items()
        if isinstance(offsets, ConnectError)
        or any(topics.should_replicate_topic(topic) for topic, _ in offsets)
    )


def assignable(group: str) -> bool:
    """Whether a group's id survives `task.assigned.groups`, a list of Java's: commas separate its
    elements, whose surrounding blanks do not count."""
    return bool(group) and "," not in group and group == group.strip()


def chunks(groups: Sequence[str], max_tasks: int) -> list[list[str]]:
    """Groups by task: as many tasks as there are groups at most, neighbours together, sizes at most
    one apart with the larger first. As Java cuts them."""
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
    """The loop of one flow. `start` and `stop` are its owner's, once each; `groups` may be read
    from any thread. The callbacks come on the loop's thread."""

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        on_change: Callable[[], None],
        on_failure: Callable[[Exception], None],
        on_trouble: Callable[[str | None], None],
    ) -> None:
        """`on_change`: the groups are others than before. `on_failure`: the loop ended, as this
        config can never work. `on_trouble`: what it cannot do for now; None: nothing any more.
        Raises `ConfigError`."""
        self._config = config
        self._flow = f"{config.source_cluster_alias}->{config.target_cluster_alias}"
        self._timeout = config.admin_timeout_ms / 1000
        self._topic_filter = topic_filter(config.originals)
        self._group_filter: GroupFilter = group_filter(config.originals)
        self._on_change = on_change
        self._groups: list[str] | None = None
        self._refused: set[str] = set()
        self._topic_ready = False
        troubles = Troubles(on_trouble)
        self._topic_in_trouble = troubles.part("topic")
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
        """The groups that are translated, sorted; None until they were found once."""
        return self._groups

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop(STOP_TIMEOUT_S)

    def _step(self) -> None:
        if not self._topic_ready:
            self._create_topic()
        deadline = Deadline(self._timeout)
        # Rounds are far apart: connections and threads are not kept for them.
        source = ConsumerGroups(client_configs.checkpoint_source_admin(self._config.originals))
        try:
            wanted = self._assignable(
                group
                for group in source.list_groups(deadline)
                if self._group_filter.should_replicate_group(group)
            )
            committed = source.committed(wanted, deadline)
        finally:
            source.close()
        self._report_failures(committed)
        self._publish(mirrored_groups(committed, self._topic_filter))

    def _create_topic(self) -> None:
        config = self._config
        name = replication_policy(config.originals).checkpoints_topic(config.source_cluster_alias)
        admin = Admin(client_configs.checkpoint_target_admin(config.originals))
        try:
            factor = config.checkpoints_topic_replication_factor
            ensure_compacted_topic(admin, name, factor, self._timeout)
        except ConnectError as error:
            reason = with_remedy(error, TOPIC_FACTOR_KEY)
            if error.retriable or isinstance(error, ConfigError):
                raise
            # Not allowed to create topics, say: someone else may have created it, so go on.
            log.error("%s: topic %s could not be created: %s", self._flow, name, reason)
        finally:
            admin.close()
        self._topic_ready = True

    def _assignable(self, groups: Iterable[str]) -> list[str]:
        found: list[str] = []
        refused: list[str] = []
        for group in groups:
            (found if assignable(group) else refused).append(group)
        if set(refused) - self._refused:
            log.warning(
                "%s: groups whose ids hold commas, or begin or end with blanks, cannot be handed "
                "to tasks and are not translated: %s",
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
        text = f"the offsets of {len(failed)} groups could not be read, of {group} for one: {error}"
        log.warning("%s: %s", self._flow, text)
        self._groups_in_trouble(text)

    def _publish(self, found: list[str]) -> None:
        if found == self._groups:
            return
        self._groups = found
        log.info("%s: translating the offsets of %d consumer groups", self._flow, len(found))
        self._on_change()
