"""The options of a backfill request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connect.config.java_regex import JavaRegex
from connect.errors import ConfigError

__all__ = ["BackfillRequest", "parse_offset_time"]

_AGO = re.compile(r"(\d+)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """A backfill request. `topics`: a pattern for whole names of source topics; None: the flow's
    topics. `partitions`: partition numbers; None: all. The start time or offset is inclusive, the
    end exclusive; None: from the flow's stored offset, and to the log end at the start of the
    backfill."""

    topics: JavaRegex | None = None
    partitions: frozenset[int] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    first: int | None = None
    last: int | None = None


def parse_offset_time(text: str, key: str, now_ms: int) -> int:
    """Parse a point in time to milliseconds since the epoch.

    `text` is `2026-11-01` or `2026-11-01T12:00` (UTC unless it has a UTC offset), epoch
    milliseconds, or a duration ago such as `36h` (s, m, h, d, w).
    """
    found = _AGO.fullmatch(text.strip())
    if found:
        ago = timedelta(**{_UNITS[found[2]]: int(found[1])})
        return now_ms - round(ago.total_seconds() * 1000)
    if text.strip().isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(
            f"Invalid value {text} for {key}. Use a time such as 2026-11-01 or "
            "2026-11-01T12:00+01:00 (UTC unless it has a UTC offset), milliseconds since 1970, "
            "or a duration ago such as 36h (s, m, h, d, w)",
            key=key,
            value=text,
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
