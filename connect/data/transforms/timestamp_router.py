"""TimestampRouter: route records to topics named after the topic and the record's timestamp."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.types import invalid_value
from connect.data.java_dates import DateFormat, InvalidPattern
from connect.data.logical import from_ms
from connect.data.transforms.base import R, Transformation
from connect.errors import DataError

__all__ = ["TimestampRouter"]


class TimestampRouter(Transformation):
    """Renames topics by timestamp, for example to one topic per day. Times are in UTC."""

    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "topic.format",
                ConfigType.STRING,
                "${topic}-${timestamp}",
                importance=Importance.HIGH,
                doc="The new topic name; `${topic}` is the old name and `${timestamp}` the"
                " record's timestamp.",
            ),
            ConfigKey(
                "timestamp.format",
                ConfigType.STRING,
                "yyyyMMdd",
                importance=Importance.HIGH,
                doc="Format of the timestamp, as a pattern of java.text.SimpleDateFormat.",
            ),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._topic_format = config.string("topic.format")
        pattern = config.string("timestamp.format")
        try:
            self._timestamp_format = DateFormat(pattern)
        except InvalidPattern as error:
            raise invalid_value("timestamp.format", pattern, str(error)) from error

    def apply(self, record: R) -> R | None:
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record: one for topic {record.topic}")
        time = self._timestamp_format.format(from_ms(record.timestamp_ms))
        named = self._topic_format.replace("${topic}", record.topic)
        return record.with_topic(named.replace("${timestamp}", time))

    def topic_for(self, topic: str) -> str | None:
        return None
