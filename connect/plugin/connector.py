"""The connector interface: a connector divides the work into tasks."""

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
    """Divides the work into tasks. Lifecycle: initialize, start, task_configs (any number),
    stop.
    """

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        self.context = context

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef:
        """Return the connector's own config keys."""

    @classmethod
    def version(cls) -> str:
        """Return the plugin's version for REST and status, or `undefined`."""
        return "undefined"

    @classmethod
    def connector_type(cls) -> Literal["source", "sink"]:
        """Return whether this is a source or a sink connector."""
        return "source"

    @classmethod
    def validate(cls, config: Mapping[str, str]) -> Sequence[ConfigProblem]:
        """Return the problems of a config that `config_def` cannot find.

        These are for example contradictory keys and missing resources. Called on any thread,
        without an instance; must return quickly.
        """
        return ()

    @classmethod
    def not_permitted(
        cls, config: Mapping[str, str], worker: Mapping[str, str]
    ) -> Sequence[ConfigProblem]:
        """Return the settings that this worker does not permit in a connector's config.

        Anybody who reaches the REST API may create connectors, but only the worker's operator may
        choose the worker's files, hosts and code. `worker`: the worker's properties. Called like
        `validate`, and before connector and tasks start.
        """
        return ()

    @classmethod
    def alter_offsets(
        cls,
        config: Mapping[str, str],
        offsets: Sequence[AlteredOffset],
    ) -> bool:
        """Check a user's change of the offsets of the stopped connector (KIP-875).

        An offset of None is deleted. Raise `BadRequest` or another `ConnectError` to refuse the
        change. Return True if nothing else needs to be done. Return False if the connector may keep
        offsets in another system too, where the user must change them; the REST response says so.
        """
        return False

    @classmethod
    def reset_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        """Check a user's deletion of all offsets, as `alter_offsets` does."""
        return cls.alter_offsets(config, offsets)

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool | None:
        """Return whether tasks with this config write each record exactly once.

        The worker stores their offsets in the same transaction (KIP-618). None means that the
        connector does not know. Called like `validate`, if `exactly.once.support` is `required`.
        """
        return None

    @classmethod
    def can_define_transaction_boundaries(cls, config: Mapping[str, str]) -> bool:
        """Return whether the tasks use `TaskContext.transactions`.

        If they do not, `transaction.boundary` may not be `connector`.
        """
        return False

    @classmethod
    def live_keys(cls) -> frozenset[str]:
        """Return the keys that running transfer tasks can apply without a restart.

        If only such keys change, the worker does not restart the connector, and calls
        `TransferTask.reconfigure`. Tasks get the values of these keys from the connector's config,
        not from `task_configs`.
        """
        return frozenset()

    @classmethod  # noqa: B027 - most have nothing to note
    def note_failure(
        cls, config: Mapping[str, str], connector: str, task: int | None, trace: str
    ) -> None:
        """Note that a connector of this class became FAILED on this worker, or one of its tasks.

        For connectors that keep records of their own. `config`: the connector's; its references to
        config providers are not resolved if that failed. `task` None: the connector itself. `trace`
        has no known secrets. Called on any thread; must return at once.
        """

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Start. Must return within seconds; run longer work on a thread that the connector
        owns.
        """

    @abstractmethod
    def task_class(self) -> type[SourceTask] | type[TransferTask] | type[SinkTask]:
        """Return the class of this connector's tasks."""

    @classmethod
    def task_class_for(
        cls, task_config: Mapping[str, str]
    ) -> type[SourceTask] | type[TransferTask] | type[SinkTask] | None:
        """Return the task class for this task config, or None to use `task_class`.

        For connectors whose task class depends on their config. The task config may come from
        another worker, so all of the classes should have the same name in task configs. Called like
        `validate`.
        """
        return None

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        """Return at most `max_tasks` task configs; index i becomes task i.

        Called again after each `request_task_reconfiguration`. None means not known yet: running
        tasks, for example from before the connector moved to this worker, continue unchanged until
        the connector requests a reconfiguration.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop, and close everything that `start` opened. Called once, also after a failed
        start.
        """


class SinkConnector(Connector):
    """A connector whose tasks read the topics in `topics`, or those that match `topics.regex`.

    The worker runs a consumer group for the connector.
    """

    @classmethod
    def connector_type(cls) -> Literal["source", "sink"]:
        return "sink"

    @abstractmethod
    def task_class(self) -> type[SinkTask]: ...
