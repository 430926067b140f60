"""MirrorCheckpointConnector: assigns the consumer groups of one flow to its tasks.

`GroupRefresh` finds the groups on its own thread; `start` and `task_configs` only read its last
result. Without groups, or with checkpoints disabled, there are no tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from connect.config.definition import ConfigDef, ConfigProblem
from connect.errors import ConfigError
from connect.log_fields import add_log_fields
from connect.plugin import AlteredOffset, SourceTask, TransferTask
from connectors.mirror.checkpoints.group_refresh import GroupRefresh, chunks
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF, CheckpointConfig
from connectors.mirror.config.former_names import former_names
from connectors.mirror.filters import group_filter, topic_filter
from connectors.mirror.history.flow_events import FlowConnector
from connectors.mirror.offsets.source_offsets import check_checkpoint_offset
from connectors.mirror.topics.forwarding_admin import forwarding_admin_class

__all__ = ["MirrorCheckpointConnector", "validate_checkpoint"]

log = logging.getLogger(__name__)


def validate_checkpoint(props: Mapping[str, str]) -> list[ConfigProblem]:
    """Return errors in the combination of these properties, beyond the checks of single keys in
    `CHECKPOINT_CONFIG_DEF`; empty if there are none.

    Like MirrorMaker 2, rejects disabled checkpoints or offset syncs, because nothing would be left
    to do.
    """
    if props.get("enabled") == "false":
        return []
    problems = [
        ConfigProblem(
            key,
            f"The checkpoint connector requires {key}=true: set it to true, or disable the "
            "checkpoint connector",
        )
        for key in ("emit.checkpoints.enabled", "emit.offset-syncs.enabled")
        if props.get(key) == "false"
    ]
    if problems:
        return problems
    try:
        config = CheckpointConfig.from_properties(props)
        topic_filter(config.originals)
        group_filter(config.originals)
        forwarding_admin_class(config.originals)
    except ConfigError as error:
        return [ConfigProblem(error.key or "connector.class", str(error))]
    return []


class MirrorCheckpointConnector(FlowConnector):
    """The checkpoint connector of one flow."""

    def __init__(self) -> None:
        self._config: CheckpointConfig | None = None
        self._refresh: GroupRefresh | None = None

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CHECKPOINT_CONFIG_DEF

    @classmethod
    def validate(cls, config: Mapping[str, str]) -> Sequence[ConfigProblem]:
        return validate_checkpoint(config)

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        """Accept any offsets: emitted checkpoints are read from the checkpoints topic instead."""
        for partition, offset in offsets:
            if offset is not None:
                check_checkpoint_offset(partition, offset)
        return True

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        from connectors.mirror.checkpoints.task import MirrorCheckpointTask

        return MirrorCheckpointTask

    def start(self, config: Mapping[str, str]) -> None:
        problems = validate_checkpoint(config)
        if problems:
            raise ConfigError(problems[0].message, key=problems[0].key)
        self._config = CheckpointConfig.from_properties(config)
        add_log_fields(flow=self._config.flow)
        for warning in former_names(config):
            log.warning("%s", warning)
        if not self._config.enabled or self._config.emit_checkpoints_interval_s is None:
            log.info("%s is not enabled for this flow", self._config.name)
            return
        self._refresh = GroupRefresh(
            self._config,
            on_change=self.context.request_task_reconfiguration,
            on_failure=self.context.raise_error,
            on_trouble=self.context.report_trouble,
        )
        self._refresh.start()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        if self._refresh is None or self._config is None:
            return []
        groups = self._refresh.groups
        if groups is None:
            return None
        return [
            {
                **self._config.originals,
                "task.assigned.groups": ",".join(assigned),
                "task.index": str(index),
            }
            for index, assigned in enumerate(chunks(groups, max_tasks))
        ]

    def stop(self) -> None:
        if self._refresh is not None:
            self._refresh.stop()
            self._refresh = None
