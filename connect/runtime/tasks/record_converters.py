"""The key, value and header converters of one task, and how configs name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connect.data.converters.base import Converter, ConverterUse
from connect.errors import ConfigError

if TYPE_CHECKING:
    from connect.config.worker import WorkerConfig
    from connect.runtime.plugins.registry import PluginRegistry

__all__ = ["USES", "Converters", "NamedConverters", "RecordConverters"]

USES: tuple[ConverterUse, ...] = ("key", "value", "header")


@dataclass(frozen=True, slots=True)
class RecordConverters:
    """The converters of key, value and headers, with their class names in configs."""

    key: Converter
    value: Converter
    header: Converter
    key_class: str
    value_class: str
    header_class: str


class NamedConverters:
    """Creates converters that properties name. Thread-safe."""

    def __init__(self, plugins: PluginRegistry) -> None:
        self._plugins = plugins

    def together(self, converters: Sequence[Converter]) -> RecordConverters:
        """Return the converters of key, value and headers as one, with their names."""
        key, value, header = converters
        names = [self._plugins.name_of(type(each)) for each in converters]
        return RecordConverters(key, value, header, *names)

    def make(self, props: Mapping[str, str], use: ConverterUse, before: str = "") -> Converter:
        """Return the converter that these properties name, configured with its keys in them.
        `before`: the prefix of these keys. Raises `ConfigError`."""
        key = f"{before}{use}.converter"
        converter = self._plugins.find(Converter, props[key], key)()
        prefix = f"{key}."
        own = {name[len(prefix) :]: props[name] for name in props if name.startswith(prefix)}
        try:
            converter.configure(own, use)
        except ConfigError as error:
            where = f"{prefix}{error.key}" if error.key in own else key
            raise ConfigError(f"{where}: {error}", key=where, value=error.value) from error
        return converter


class Converters(NamedConverters):
    """Creates converters from configs, by default the worker's. Thread-safe."""

    def __init__(self, plugins: PluginRegistry, worker: WorkerConfig) -> None:
        super().__init__(plugins)
        self._worker = worker

    def of(self, connector_config: Mapping[str, str]) -> RecordConverters:
        """Return a connector's converters. Raises `ConfigError`."""
        return self.together([self._of(connector_config, use) for use in USES])

    def _of(self, connector_config: Mapping[str, str], use: ConverterUse) -> Converter:
        """Return the connector's converter with its properties, or the worker's with the worker's.

        Class and properties never come from different configs.
        """
        if connector_config.get(f"{use}.converter"):
            return self.make(connector_config, use)
        worker = {**self._worker.originals, f"{use}.converter": self._default(use)}
        return self.make(worker, use)

    def _default(self, use: ConverterUse) -> str:
        if use == "key":
            return self._worker.key_converter
        if use == "value":
            return self._worker.value_converter
        return self._worker.header_converter
