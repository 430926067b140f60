"""InsertHeader: add the same header to every record."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.validators import NonNull
from connect.data.record import Header
from connect.data.transforms.base import R, Transformation
from connect.data.values import parse

__all__ = ["InsertHeader"]


class InsertHeader(Transformation):
    """Adds a header. The value is parsed like SimpleHeaderConverter does: `1` is a number."""

    PARTS = frozenset({"header"})

    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "header",
                ConfigType.STRING,
                validator=NonNull(),
                importance=Importance.HIGH,
                doc="The header's name.",
            ),
            ConfigKey(
                "value.literal",
                ConfigType.STRING,
                validator=NonNull(),
                importance=Importance.HIGH,
                doc="The header's value, as text.",
            ),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        schema, value = parse(config.string("value.literal"))
        self._header = Header(config.string("header"), value, schema)

    def apply(self, record: R) -> R | None:
        return record.with_headers([*record.headers, self._header])
