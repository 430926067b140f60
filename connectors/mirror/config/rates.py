"""Rate limits of a flow: bytes and records per second, for the whole flow and for topics. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from connect.config.java_regex import JavaRegex, JavaRegexError, compile_java_regex
from connect.config.sizes import parse_size

__all__ = ["NO_LIMITS", "FlowLimits", "RateLimit", "TopicRate", "parse_topic_rate"]

_RECORDS = re.compile(r"(\d+(?:\.\d+)?)\s*records(?:/s)?", re.IGNORECASE)
_FORM = (
    "Elements must be <regular expression of topics>=<rate>, with a rate in bytes (10MB/s) or "
    "records (500records/s)"
)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Bytes and records per second; None: no limit."""

    bytes: float | None = None
    records: float | None = None

    def __bool__(self) -> bool:
        return self.bytes is not None or self.records is not None

    def share(self, part: float) -> RateLimit:
        """Return the limit multiplied by `part`, a share from 0 to 1."""
        return RateLimit(
            None if self.bytes is None else self.bytes * part,
            None if self.records is None else self.records * part,
        )


@dataclass(frozen=True, slots=True)
class TopicRate:
    """A limit for each topic whose whole name matches the pattern."""

    pattern: JavaRegex
    limit: RateLimit


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """All limits of a flow. `whole`: the limit of the whole flow. `topics`: limits of single source
    topics. `divided`: the topics' limits are already this task's shares."""

    whole: RateLimit = RateLimit()
    topics: Sequence[TopicRate] = ()
    divided: bool = False

    def of_topic(self, topic: str) -> RateLimit:
        """Return the limit of one topic: the first match that limits bytes, and the first that
        limits records."""
        found = RateLimit()
        for each in self.topics:
            if each.pattern.fullmatch(topic):
                found = RateLimit(
                    each.limit.bytes if found.bytes is None else found.bytes,
                    each.limit.records if found.records is None else found.records,
                )
        return found


NO_LIMITS = FlowLimits()


def parse_topic_rate(element: str) -> TopicRate:
    """Parse `orders.*=10MB/s` or `audit=500records/s`. Raises `ValueError` with the allowed
    format."""
    pattern, equals, rate = element.rpartition("=")
    if not equals or not pattern.strip():
        raise ValueError(_FORM)
    try:
        compiled = compile_java_regex(pattern.strip())
    except JavaRegexError as error:
        raise ValueError(f"{pattern.strip()} is not a valid regular expression: {error}") from error
    records = _RECORDS.fullmatch(rate.strip())
    if records is not None and float(records[1]) > 0:
        return TopicRate(compiled, RateLimit(records=float(records[1])))
    size = None if records is not None else parse_size(rate)
    if size is None:
        raise ValueError(_FORM)
    return TopicRate(compiled, RateLimit(bytes=size))
