"""The keys that limit how fast a flow copies. Tasks apply new values while they run. Not keys of
MirrorMaker 2."""

from __future__ import annotations

from dataclasses import dataclass

from connect.config.definition import ConfigKey, Importance, ParsedConfig
from connect.config.sizes import parse_size
from connect.config.types import ConfigScalar, ConfigType, invalid_value
from connect.config.validators import OrNull, Range
from connectors.mirror.config.rates import FlowLimits, RateLimit, parse_topic_rate

__all__ = ["RATE_KEYS", "RATE_NAMES", "flow_limits"]

_BYTES, _RECORDS, _TOPICS = "mirror.rate.bytes", "mirror.rate.records", "mirror.rate.topics"


@dataclass(frozen=True, slots=True)
class _ByteRate:
    """A config type: a size with a unit."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if not isinstance(value, str) or parse_size(value) is None:
            raise invalid_value(key, value, f"Value must be {self.describe()}")
        return value

    def describe(self) -> str:
        return "a size above 0 such as 50MB, 1.5GiB or 800000"


@dataclass(frozen=True, slots=True)
class _TopicRates:
    """A config type: a list of elements that `parse_topic_rate` reads."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        for element in value if isinstance(value, tuple) else ():
            try:
                parse_topic_rate(element)
            except ValueError as error:
                raise invalid_value(key, element, str(error)) from error
        return value

    def describe(self) -> str:
        return "elements such as orders.*=10MB/s or audit=500records/s"


RATE_KEYS = (
    ConfigKey(
        _BYTES,
        ConfigType.STRING,
        None,
        OrNull(_ByteRate()),
        Importance.MEDIUM,
        "Maximum bytes per second that the flow copies, over all its tasks, such as `50MB`. Each "
        "task gets an equal share. Not set: no limit. Can be changed while the flow runs, "
        "without a restart. Not a key of MirrorMaker 2.",
    ),
    ConfigKey(
        _RECORDS,
        ConfigType.LONG,
        None,
        OrNull(Range(1)),
        Importance.LOW,
        "Maximum records per second that the flow copies; otherwise like `mirror.rate.bytes`. "
        "Not a key of MirrorMaker 2.",
    ),
    ConfigKey(
        _TOPICS,
        ConfigType.LIST,
        (),
        _TopicRates(),
        Importance.MEDIUM,
        "Rate limits of single source topics: regular expressions with a rate in bytes or "
        "records, such as `logs-.*=5MB/s,audit=500records/s`. The limit applies to each matching "
        "topic separately; if several expressions match, the first one counts. Topics over their "
        "limit do not slow others. Can be changed while the flow runs, without a restart. Not a "
        "key of MirrorMaker 2.",
    ),
)

RATE_NAMES = frozenset(key.name for key in RATE_KEYS)


def flow_limits(parsed: ParsedConfig) -> FlowLimits:
    """Return the rate limits in a connector's parsed config."""
    size = parsed.optional_string(_BYTES)
    records = parsed.optional_integer(_RECORDS)
    return FlowLimits(
        RateLimit(
            None if size is None else parse_size(size),
            None if records is None else float(records),
        ),
        tuple(parse_topic_rate(element) for element in parsed.strings(_TOPICS)),
    )
