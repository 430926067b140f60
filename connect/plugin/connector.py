"""Connectors: they cut the work into tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from connect.plugin.contexts import ConnectorContext
from connect.plugin.sink_task import SinkTask
from connect.plugin.source_task import SourceTask
from connect.plugin.stored import AlteredOffset
from connect.plugin.transfer_task import TransferTask

if TYPE_CHECKING:
    from connect.config.definition import ConfigDef, ConfigProblem

__all__ = ["Connector", "SinkConnector"]


class Connector(ABC):
    """Cuts the work into tasks. Lifecycle: initialize, start, task_configs (any number), stop."""

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        self.context = context

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef:
        """The connector's own config keys."""

    @classmethod
    def version(cls) -> str:
        """The plugin's version, for REST and status; `undefined` where it has none."""
        return "undefined"

    @classmethod
    def connector_type(cls) -> Literal["source", "sink"]:
        """Which way records go."""
        return "source"

    @classmethod
    def validate(cls, config: Mapping[str, str]) -> Sequence[ConfigProblem]:
        """What is wrong with a config beyond what `config_def` finds: rules between keys, things
        that do not exist. Called on any thread, before there is an instance; must not take long."""
        return ()

    @classmethod
    def alter_offsets(
        cls,
        config: Mapping[str, str],
        offsets: Sequence[AlteredOffset],
    ) -> bool:
        """The user is about to change these offsets of the stopped connector (KIP-875); an offset
        of None deletes one. Raise `BadRequest` or another `ConnectError` to refuse.

        True: nothing else has to be done. False: it may be that the connector keeps offsets
        elsewhere, too, which the user has to change there; the answer says so.
        """
        return False

    @classmethod
    def reset_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        """As `alter_offsets`, where the user deletes all offsets there are: these."""
        return cls.alter_offsets(config, offsets)

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool | None:
        """Whether tasks with this config give each record once, given that their offsets are stored
        with them (KIP-618). None: the connector does not say; users have to know. Called like
        `validate`, where `exactly.once.support` is `required`."""
        return None

    @classmethod
    def can_define_transaction_boundaries(cls, config: Mapping[str, str]) -> bool:
        """Whether the tasks use `TaskContext.transactions`: otherwise `transaction.boundary` may
        not be `connector`."""
        return False

    @classmethod
    def live_keys(cls) -> frozenset[str]:
        """Keys whose values the tasks, being transfer tasks, take over while they run. Where
        nothing else of the config has changed the connector is not told, and the tasks are
        (`TransferTask.reconfigure`). Tasks have these values from the connector's config, not from
        what `task_configs` says."""
        return frozenset()

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Begin. Must return within seconds; long work goes to a thread the connector owns."""

    @abstractmethod
    def task_class(self) -> type[SourceTask] | type[TransferTask] | type[SinkTask]:
        """The class of this connector's tasks."""

    @classmethod
    def task_class_for(
        cls, task_config: Mapping[str, str]
    ) -> type[SourceTask] | type[TransferTask] | type[SinkTask] | None:
        """The class for a task with this config, which may be of another worker's making; None:
        that of every instance's `task_class`. For connectors whose task class depends on their
        config; its names in task configs should be the same then. Called like `validate`."""
        return None

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        """At most `max_tasks` task configs. May be called again after any
        `request_task_reconfiguration`. Index i of the list becomes task i.

        None: not known yet. Tasks that run, say from before the connector came to this worker, go
        on as they are until the connector requests a reconfiguration."""

    @abstractmethod
    def stop(self) -> None:
        """End, and close everything that `start` opened. Called once, also after a failed start."""


class SinkConnector(Connector):
    """A connector whose tasks take the records of `topics`, or of those that `topics.regex`
    matches, through a consumer group of its own that the worker runs."""

    @classmethod
    def connector_type(cls) -> Literal["source", "sink"]:
        return "sink"

    @abstractmethod
    def task_class(self) -> type[SinkTask]: ...
