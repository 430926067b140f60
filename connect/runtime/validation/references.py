"""Config provider references in the outcome of a validation, as they were given.

A user that may validate a config must not learn the values of its references, neither as the value
of a key nor from an error that quotes one. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect.config.definition import ConfigKey
from connect.config.providers import has_reference
from connect.config.types import HIDDEN
from connect.runtime.rest_entities import ConfigInfo, ConfigInfos

__all__ = ["References"]

# Nobody learns a secret from so little, and errors have other words of that length.
_SHORTEST = 4


class References:
    """The references of one config."""

    def __init__(self, given: Mapping[str, str], resolved: Mapping[str, str]) -> None:
        self._given = {
            key: text
            for key, text in given.items()
            if has_reference(text) and resolved[key] != text
        }
        values = ((resolved[key].strip(), text) for key, text in self._given.items())
        self._by_value = {value: text for value, text in values if len(value) >= _SHORTEST}

    def shown(self, infos: ConfigInfos) -> ConfigInfos:
        """Return the outcome with references in place of their values."""
        if not self._given:
            return infos
        return replace(
            infos,
            name=self.in_text(infos.name),
            groups=list(map(self.in_text, infos.groups)),
            configs=list(map(self._shown, infos.configs)),
        )

    def in_text(self, text: str) -> str:
        """Return a text in which no value of a reference is quoted."""
        for value, reference in self._by_value.items():
            text = text.replace(value, reference)
        return text

    def _shown(self, info: ConfigInfo) -> ConfigInfo:
        value, text = info.value, info.value.value
        if text is not None and text != HIDDEN:
            text = self._given.get(value.name, text)
        shown = replace(
            value,
            # A list of aliases makes keys, which have the aliases in their names.
            name=self.in_text(value.name),
            value=text,
            errors=tuple(map(self.in_text, value.errors)),
        )
        group = None if info.group is None else self.in_text(info.group)
        key = None if info.key is None else self._renamed(info.key)
        return replace(info, key=key, value=shown, group=group)

    def _renamed(self, key: ConfigKey) -> ConfigKey:
        if not any(value in key.name for value in self._by_value):
            return key
        return replace(
            key,
            name=self.in_text(key.name),
            group=None if key.group is None else self.in_text(key.group),
            display_name=None if key.display_name is None else self.in_text(key.display_name),
            doc=self.in_text(key.doc),
            dependents=tuple(map(self.in_text, key.dependents)),
        )
