"""Runs a flow's `transforms` on executors, with the classes that workers run them with.

A copier has one chain for all shards that it copies. Classes of `plugin.path` are looked up in the
same directories as on the worker. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from connect.clock import SYSTEM_CLOCK
from connect.plugin import RawRecord
from connect.protocol.messages import TopicPartition
from connect.runtime.error_handling.reporters import source_errors
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.plugins.transform_chain import has_transforms
from connect.runtime.tasks.record_converters import NamedConverters
from connect.runtime.transfer.record_transforms import make_record_transforms
from connectors.mirror.config.transforms import CONVERTERS_PREFIX
from connectors.mirror.copy.batches.transformed import ChangeRecord

__all__ = ["ExecutorTransforms", "one_after_the_other"]


class ExecutorTransforms:
    """The chain of one flow; empty if it has none."""

    def __init__(
        self, connector: Mapping[str, str], plugin_path: Sequence[str], most_retry_s: float
    ) -> None:
        """`most_retry_s`: how long a record is retried at most, because a shard has a time limit.
        Raises `ConfigError`."""
        self._transforms = None
        self._read: Mapping[str, float] = {}
        if has_transforms(connector):
            plugins = PluginRegistry(plugin_path=plugin_path)
            name = connector.get("name", "MirrorSourceConnector")
            self._transforms = make_record_transforms(
                plugins,
                NamedConverters(plugins),
                connector,
                CONVERTERS_PREFIX,
                source_errors(f"{name}-0", connector, SYSTEM_CLOCK, most_retry_s),
            )

    def changes(
        self, partitions: Iterable[TopicPartition], names: Mapping[str, str]
    ) -> dict[TopicPartition, ChangeRecord]:
        """Return the transformations of these partitions. `names`: the topics that the chain
        changes, with the names that it gets for them."""
        found: dict[TopicPartition, ChangeRecord] = {}
        for topic, number in partitions:
            if self._transforms is None or topic not in names:
                continue
            _, transform = self._transforms.of_topic(topic, names[topic])
            if transform is not None:
                found[topic, number] = partial(transform.apply, number)
        return found

    def errors(self) -> dict[str, float]:
        """Return the counts of `task-error-metrics` since the last call; those that are 0 are left
        out."""
        if self._transforms is None:
            return {}
        before, self._read = self._read, self._transforms.metrics.read()
        return {
            # The time of the last error is not a count.
            name: value if name.endswith("timestamp") else value - before.get(name, 0.0)
            for name, value in self._read.items()
            if value != before.get(name, 0.0)
        }

    def close(self) -> None:
        if self._transforms is not None:
            self._transforms.close()


def one_after_the_other(first: ChangeRecord, second: ChangeRecord) -> ChangeRecord:
    """Return both transformations as one. The second does not get records that the first leaves
    out."""

    def change(offset: int, record: RawRecord) -> RawRecord | None:
        changed = first(offset, record)
        return None if changed is None else second(offset, changed)

    return change
