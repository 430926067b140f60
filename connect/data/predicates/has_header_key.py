"""HasHeaderKey: true for records with at least one header of a given name."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.config.validators import NonEmptyString
from connect.data.record import ConnectRecord
from connect.data.transforms.base import Predicate

__all__ = ["HasHeaderKey"]


class HasHeaderKey(Predicate):
    """Matches records with a header of this name, whatever its value."""

    PARTS = frozenset({"header"})

    CONFIG_DEF = ConfigDef(
        [ConfigKey("name", ConfigType.STRING, validator=NonEmptyString(), doc="The header's name.")]
    )

    def take(self, config: ParsedConfig) -> None:
        self._name = config.string("name")

    def test(self, record: ConnectRecord) -> bool:
        return any(header[0] == self._name for header in record.headers)
