"""The settings of one run of MirrorMaker 1, as its command line and files gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.mirrormaker1.plugins import MessageHandler, RebalanceListener
from connectors.mirrormaker1.topics import TopicList

__all__ = ["MirrorSettings", "SourceFile"]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One `--consumer.config`. `name`: the file's, without its ending. `properties`: today's Java
    consumer properties; they may contain secrets."""

    name: str
    properties: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The settings that all sources share. `producer`: today's Java producer properties. `handler`
    None: records are copied as they are."""

    target_name: str
    producer: Mapping[str, str] = field(repr=False)
    topics: TopicList
    commit_interval_ms: int = 60_000
    abort_on_send_failure: bool = True
    handler: MessageHandler | None = None
    listener: RebalanceListener | None = None
