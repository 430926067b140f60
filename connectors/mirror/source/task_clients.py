"""The clients and the clock of a source task, which a simulation can replace.

A `MirrorSourceTask` opens every client of a cluster or a database, and reads the clock, only
through its `TaskClients`. Called on the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from connect.clients.cluster.cluster_access import ClusterAccess
from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.config.settings import WireSettings
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import SYSTEM_CLOCK, Clock
from connectors.mirror.compare.tail_lookup import ThreadedTailLookup
from connectors.mirror.config.clients import source_admin, target_admin
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.copy.memory import PROCESS_MEMORY, SharedMemory
from connectors.mirror.copy.positions.tail_checks import TailLookup
from connectors.mirror.copy.quarantine import Quarantine
from connectors.mirror.copy.quarantine_topic import QuarantineTopic
from connectors.mirror.copy.transactions.executor_ids import fence_lanes
from connectors.mirror.history.recorder import TaskHistory
from connectors.mirror.offsets.internal_topics import KafkaOffsetTopicClients, OffsetTopicClients
from connectors.mirror.retention.watch import RetentionWatch
from connectors.mirror.source.catch_up import PROCESS_CATCH_UP, CatchUp
from connectors.mirror.topics.forwarding_admin import forwarding_admin

__all__ = ["OwnedQuarantine", "OwnedTailLookup", "TaskClients"]


class OwnedQuarantine(Quarantine, Protocol):
    """A quarantine that its owner closes once."""

    def close(self) -> None: ...


class OwnedTailLookup(TailLookup, Protocol):
    """A tail lookup that its owner closes once."""

    def close(self) -> None: ...


class TaskClients:
    """Opens real clients. The caller closes them."""

    clock: Clock = SYSTEM_CLOCK
    catch_up: CatchUp = PROCESS_CATCH_UP
    memory: SharedMemory = PROCESS_MEMORY

    def open_cluster(
        self, settings: WireSettings, on_change: Callable[[], None], clock: Clock, name: str
    ) -> ClusterAccess:
        """Open one of the two clusters (`cluster_access.OpenCluster`). The engine closes it."""
        return ClusterLink(settings, on_change, clock, name)

    def loop(self) -> SelectorLoop:
        """Create the event loop of the copy engine. The engine closes it."""
        return SelectorLoop(self.clock)

    def offset_topics(self, config: SourceConfig, index: str | None) -> OffsetTopicClients:
        """The writer of offset syncs and offset map; `index`: the task's number."""
        return KafkaOffsetTopicClients(config, index)

    def history(self, config: SourceConfig, connector: str, task: int) -> TaskHistory:
        """Create the writer of the task's events, copied ranges and lag samples."""
        return TaskHistory(config, connector, task, self.clock)

    def quarantine(
        self, topic: str, config: SourceConfig, producer: Mapping[str, str]
    ) -> OwnedQuarantine:
        """The quarantine for records that cannot be copied. `producer`: Java properties of a
        producer for the target."""
        return QuarantineTopic(
            topic,
            config.source_cluster_alias,
            config.replication_factor,
            producer,
            lambda: forwarding_admin(config.originals, target_admin(config.originals)),
        )

    def tails(
        self, source: WireSettings, target: WireSettings, *, read_committed: bool
    ) -> OwnedTailLookup:
        """Create the comparison of target log ends with the source after a crash."""
        return ThreadedTailLookup(source, target, read_committed=read_committed)

    def retention(self, config: SourceConfig, consumer: Mapping[str, str]) -> RetentionWatch | None:
        """Create the retention watch, which estimates when retention deletes records that are not
        copied yet; None: no estimates. `consumer`: Java properties of a consumer for the source.
        """
        return RetentionWatch(config.flow, source_admin(config.originals), consumer)

    def fence_lanes(
        self, target: WireSettings, task_id: str, task: int, cancellation: Cancellation | None
    ) -> None:
        """Fence executors of an earlier Spark engine (`executor_ids.fence_lanes`). Blocks."""
        fence_lanes(target, task_id, task, cancellation)
