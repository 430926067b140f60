"""DropHeaders: remove headers by name."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.validators import ValidList
from connect.data.transforms.base import R, Transformation

__all__ = ["DropHeaders"]


class DropHeaders(Transformation):
    """Removes all headers with these names."""

    PARTS = frozenset({"header"})

    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "headers",
                ConfigType.LIST,
                validator=ValidList(allow_empty=False),
                importance=Importance.HIGH,
                doc="Names of the headers to remove.",
            )
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._names = frozenset(config.strings("headers"))

    def apply(self, record: R) -> R | None:
        return record.with_headers(
            [header for header in record.headers if header[0] not in self._names]
        )
