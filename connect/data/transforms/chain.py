"""A connector's transformations in order, each with its predicate, and what they do to a topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from connect.config.types import invalid_value
from connect.data.converters.base import ConverterUse
from connect.data.transforms.base import Predicate, R, Transformation
from connect.errors import ConfigError, DataError

__all__ = ["TopicRoute", "TransformChain", "TransformStage"]

_log = logging.getLogger(__name__)

_ANY_TOPIC = "topic"
_BY_RECORD = (
    "the topic would differ from record to record, but the connector copies each topic to one other"
    " topic; use RegexRouter, without a predicate or with TopicNameMatches"
)


@dataclass(frozen=True, slots=True)
class TransformStage:
    """One transformation with its alias. `predicate` None: it applies to every record.

    `class_name` is the class name used in configs, Java's if there is one.
    """

    alias: str
    transformation: Transformation
    class_name: str
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: R) -> R | None:
        """Return the transformed record, or None if it was dropped."""
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)

    def applies(self, topic: str) -> bool | None:
        """Whether it applies to the records of a topic; None: each record decides."""
        if self.predicate is None:
            return True
        verdict = self.predicate.test_topic(topic)
        return None if verdict is None else verdict is not self.negate


class TopicRoute(NamedTuple):
    """The effect of a chain on the records of one topic: the topic that they go to, and the stages
    that may change or drop them. Without stages, keys, values and headers stay as they are.
    `chain` lacks stages at its end that only rename topics. `before_names`: the topic that its
    records have."""

    topic: str
    chain: TransformChain
    before_names: str


class TransformChain:
    """The stages in order. Used by one task's thread; its owner closes it once."""

    __slots__ = ("_stages", "_steps")

    def __init__(self, stages: Sequence[TransformStage] = ()) -> None:
        self._stages = tuple(stages)
        self._steps = tuple(
            (stage.transformation.apply if stage.predicate is None else stage.apply, stage)
            for stage in self._stages
        )

    def __bool__(self) -> bool:
        return bool(self._stages)

    @property
    def steps(self) -> Sequence[tuple[Callable[[Any], Any], TransformStage]]:
        """The stages in order, each after the function that applies it to a record."""
        return self._steps

    @property
    def plugins(self) -> list[Transformation | Predicate]:
        """The transformations and predicates of the stages."""
        pairs = ((stage.transformation, stage.predicate) for stage in self._stages)
        return [each for pair in pairs for each in pair if each is not None]

    @property
    def parts(self) -> frozenset[ConverterUse]:
        """The parts of a record that the stages read or change."""
        return frozenset().union(*(each.PARTS for each in self.plugins))

    def route(self, topic: str) -> TopicRoute:
        """Return what the chain does to the records of `topic`.

        Predicates that the topic decides are left out of the route's chain. That chain uses the
        plugins of this one, which still owns them. Raises `ConfigError` if the topic that records
        go to differs from record to record.
        """
        stages: list[TransformStage] = []
        needed, before_names = 0, topic
        for stage in self._stages:
            applies = stage.applies(topic)
            if applies is False:
                continue
            try:
                after = stage.transformation.topic_for(topic)
            except DataError as error:
                raise _unroutable(stage, f"it cannot rename topic {topic}: {error}") from error
            if after is None or (applies is None and after != topic):
                raise _unroutable(stage, _BY_RECORD)
            topic = after
            stages.append(stage if applies is None else replace(stage, predicate=None))
            if not stage.transformation.ROUTES_ONLY:
                needed, before_names = len(stages), topic
        return TopicRoute(topic, TransformChain(stages[:needed]), before_names)

    def check_routes(self) -> None:
        """Raise `ConfigError` if a stage gives records of one topic different topics, whatever the
        topics are."""
        for stage in self._stages:
            router = stage.transformation.ROUTES_ONLY
            if stage.transformation.topic_for(_ANY_TOPIC) is None or (
                router and stage.applies(_ANY_TOPIC) is None
            ):
                raise _unroutable(stage, _BY_RECORD)

    def close(self) -> None:
        for stage in self._stages:
            for plugin in (stage.transformation, stage.predicate):
                try:
                    if plugin is not None:
                        plugin.close()
                except Exception:  # noqa: BLE001 - plugin code; the others are closed all the same
                    _log.exception(
                        "Closing transformation %s failed; this is a defect of the plugin: report"
                        " it to its author, with the trace",
                        stage.alias,
                    )


def _unroutable(stage: TransformStage, reason: str) -> ConfigError:
    key = f"transforms.{stage.alias}.type"
    return invalid_value(key, stage.class_name, reason)
