"""Rate limits of a flow: bytes and records a second, for the whole flow and for topics. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from connect.config.java_regex import JavaRegexError, compile_java_regex
from connect.config.sizes import parse_size

__all__ = ["NO_LIMITS", "FlowLimits", "RateLimit", "TopicRate", "parse_topic_rate"]

_RECORDS = re.compile(r"(\d+(?:\.\d+)?)\s*records(?:/s)?", re.IGNORECASE)
_FORM = (
    "Elements look like <regular expression of topics>=<rate>, with a rate of bytes (10MB/s) or of "
    "records (500records/s)"
)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Bytes and records a second; None: no limit."""

    bytes: float | None = None
    records: float | None = None

    def __bool__(self) -> bool:
        return self.bytes is not None or self.records is not None

    def share(self, part: float) -> RateLimit:
        """This share of the limit; 1: all."""
        return RateLimit(
            None if self.bytes is None else self.bytes * part,
            None if self.records is None else self.records * part,
        )


@dataclass(frozen=True, slots=True)
class TopicRate:
    """The limit of each topic whose whole name matches the pattern."""

    pattern: re.Pattern[str]
    limit: RateLimit


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """`whole`: limits the whole flow; `topics`: limit single topics of the source. `divided`: the
    topics' limits are already this task's shares."""

    whole: RateLimit = RateLimit()
    topics: Sequence[TopicRate] = ()
    divided: bool = False

    def of_topic(self, topic: str) -> RateLimit:
        """The limit of one topic: the first match that limits bytes, and the first that limits
        records."""
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
    """Parse `orders.*=10MB/s` or `audit=500records/s`. Raises `ValueError` that names the allowed
    format."""
    pattern, equals, rate = element.rpartition("=")
    if not equals or not pattern.strip():
        raise ValueError(_FORM)
    try:
        compiled = compile_java_regex(pattern.strip())
    except JavaRegexError as error:
        raise ValueError(f"{pattern.strip()} is not a regular expression: {error}") from error
    records = _RECORDS.fullmatch(rate.strip())
    if records is not None and float(records[1]) > 0:
        return TopicRate(compiled, RateLimit(records=float(records[1])))
    size = None if records is not None else parse_size(rate)
    if size is None:
        raise ValueError(_FORM)
    return TopicRate(compiled, RateLimit(bytes=size))
