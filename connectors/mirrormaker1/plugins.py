"""Extensions of MirrorMaker 1: message handlers and rebalance listeners, as Python classes.

A class is named `module:Class`, or by its entry point. With `--message.handler.args` or
`--rebalance.listener.args` it is created with that string, otherwise without arguments, as in Java.
All methods are called on the thread of the source that the records come from, so a handler of
several sources must be thread-safe.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TypeVar

from connect.errors import ConfigError
from connect.protocol.messages import TopicPartition

__all__ = [
    "HANDLERS",
    "LISTENERS",
    "ConsumedRecord",
    "MessageHandler",
    "ProducedRecord",
    "RebalanceListener",
    "load_plugin",
]

HANDLERS = "kafka_connect_mirror.message_handlers"
LISTENERS = "kafka_connect_mirror.rebalance_listeners"
"""The groups of entry points."""

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record of the source. `timestamp`: ms since 1970; None: it has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class ProducedRecord:
    """A record for the target. `partition` None: chosen from the key as Java's default partitioner
    does, or any one without a key. `timestamp` None: the time of sending."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


class MessageHandler(ABC):
    """Decides what is written for each record (Java: MirrorMakerMessageHandler)."""

    @abstractmethod
    def handle(self, record: ConsumedRecord) -> Iterable[ProducedRecord]:
        """Return the records to write: none, one or several. An error stops the mirror."""


class RebalanceListener:
    """Is notified when partitions of the source are assigned and revoked (Java:
    ConsumerRebalanceListener)."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called before records of these (topic, partition) pairs are copied."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called after their last records were acknowledged and their offsets committed."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when other members may have the partitions already. By default, calls
        `on_partitions_revoked`."""
        self.on_partitions_revoked(partitions)


Plugin = TypeVar("Plugin")


def load_plugin(
    option: str, name: str, argument: str | None, base: type[Plugin], group: str
) -> Plugin:
    """Make an object of the class that an option names. Raises `ConfigError`."""
    found = _find(option, name.strip(), group)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(
            f"Invalid value {name} for {option}: it is not a subclass of "
            f"{base.__module__}.{base.__qualname__}"
        )
    make: Callable[..., Plugin] = found
    try:
        return make() if argument is None else make(argument)
    except Exception as error:
        raise ConfigError(
            f"Invalid value {name} for {option}: creating it failed: {error}"
        ) from error


def _find(option: str, name: str, group: str) -> object:
    module_name, colon, class_name = name.partition(":")
    if not colon:
        known = {each.name: each for each in entry_points(group=group)}
        if name not in known:
            listed = f"; installed are: {', '.join(sorted(known))}" if known else ""
            raise ConfigError(
                f"Invalid value {name} for {option}: it is neither module:Class nor an entry point "
                f"of {group}{listed}. Java classes cannot be used: write the class in Python"
            )
        return _loaded(option, name, known[name].load)
    return _loaded(option, name, lambda: getattr(importlib.import_module(module_name), class_name))


def _loaded(option: str, name: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"Invalid value {name} for {option}: {error}. Its folder must be in PYTHONPATH"
        ) from error
