"""Config keys of a connector's transformations and predicates, and checks of plugin class names.

They need the plugin registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from connect.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Width,
    invalid_value,
)
from connect.config.types import parse_value
from connect.data.converters.base import Converter, HeaderConverter
from connect.data.transforms.base import Predicate, Transformation
from connect.errors import ConfigError
from connect.runtime.plugins.instances import make_plugin
from connect.runtime.plugins.kinds import PluginKind, kinds_of
from connect.runtime.plugins.registry import PluginRegistry

__all__ = ["PluginClassKey", "class_value", "plugin_class_keys", "stage_keys"]

_Props = Mapping[str, str | None]

_CONVERTERS = frozenset({PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER})

_STAGE_KEYS = (
    ConfigKey(
        "predicate",
        ConfigType.STRING,
        None,
        doc="Alias of a predicate: applies the transformation only to records that match it.",
    ),
    ConfigKey(
        "negate",
        ConfigType.BOOLEAN,
        False,
        doc="Whether to apply the transformation to records that do not match the predicate.",
    ),
)


@dataclass(frozen=True, slots=True)
class PluginClassKey:
    """A key whose value is a plugin class. `interface`: Java's name of the required interface."""

    name: str
    kind: PluginKind
    interface: str


@dataclass(frozen=True, slots=True)
class _Offer:
    """Recommends the plugins of a kind, or the versions of one plugin."""

    values: tuple[str, ...]

    def valid_values(self, props: _Props) -> tuple[str, ...]:
        return self.values

    def visible(self, props: _Props) -> bool:
        return True


def plugin_class_keys(props: _Props) -> Iterator[PluginClassKey]:
    """Yield every key of this config that names a plugin, except the connector."""
    yield PluginClassKey("key.converter", PluginKind.CONVERTER, Converter.__name__)
    yield PluginClassKey("value.converter", PluginKind.CONVERTER, Converter.__name__)
    yield PluginClassKey("header.converter", PluginKind.HEADER_CONVERTER, HeaderConverter.__name__)
    for alias in _aliases(props, "transforms"):
        yield PluginClassKey(
            f"transforms.{alias}.type", PluginKind.TRANSFORMATION, Transformation.__name__
        )
    for alias in _aliases(props, "predicates"):
        yield PluginClassKey(f"predicates.{alias}.type", PluginKind.PREDICATE, Predicate.__name__)


def stage_keys(registry: PluginRegistry, props: _Props) -> list[ConfigKey]:
    """Return the keys of the config's transformations, then those of its predicates."""
    keys: list[ConfigKey] = []
    for alias in _aliases(props, "transforms"):
        keys += _keys_of(
            registry, props, alias, "Transformation", PluginKind.TRANSFORMATION, _STAGE_KEYS
        )
    for alias in _aliases(props, "predicates"):
        keys += _keys_of(registry, props, alias, "Predicate", PluginKind.PREDICATE, ())
    return keys


def class_value(
    registry: PluginRegistry, key: PluginClassKey, generic: ConfigValue, props: _Props
) -> ConfigValue:
    """Return the validation of a key that names a plugin: its full name, or the errors."""
    text = props.get(key.name)
    if text is None:
        return generic
    name = text.strip()
    found = registry.lookup(name) if name else []
    fitting = [plugin for plugin in found if key.kind in kinds_of(plugin)]
    if len(fitting) == 1:
        full = registry.name_of(fitting[0])
        refusals = _refusals(fitting[0], key.name, full) if key.kind in _CONVERTERS else ()
        return replace(generic, value=full, errors=(*generic.errors, *refusals))
    if found and not fitting:
        full = registry.name_of(found[0])
        error = f"Class class {full} does not implement the {key.interface} interface"
        return replace(generic, value=full, errors=(*generic.errors, error))
    variants = [
        plugin.name for plugin in registry.all(key.kind) if plugin.name.startswith(f"{name}$")
    ]
    if name and variants:
        error = f"This class is abstract and cannot be created. Did you mean {', '.join(variants)}?"
        return replace(generic, value=name, errors=(*generic.errors, error))
    error = str(invalid_value(key.name, text, f"Class {name} could not be found."))
    return replace(generic, value=None, errors=(*generic.errors, error))


def _refusals(plugin: type, key: str, name: str) -> tuple[str, ...]:
    """Return why no object of this class can be made. Makes one."""
    try:
        make_plugin(plugin, key, name)
    except ConfigError as error:
        return (str(error),)
    return ()


def _aliases(props: _Props, key: str) -> tuple[str, ...]:
    aliases = parse_value(key, props.get(key), ConfigType.LIST)
    return tuple(dict.fromkeys(aliases)) if isinstance(aliases, tuple) else ()


def _keys_of(
    registry: PluginRegistry,
    props: _Props,
    alias: str,
    what: str,
    kind: PluginKind,
    more: tuple[ConfigKey, ...],
) -> Iterator[ConfigKey]:
    section = "transforms" if kind is PluginKind.TRANSFORMATION else "predicates"
    prefix, group = f"{section}.{alias}.", f"{section.capitalize()}: {alias}"
    given = (props.get(f"{prefix}type") or "").strip()
    fitting = [plugin for plugin in registry.lookup(given) if kind in kinds_of(plugin)]
    plugin = fitting[0] if len(fitting) == 1 else None
    version = None if plugin is None else registry.version_of(plugin)
    yield ConfigKey(
        f"{prefix}type",
        ConfigType.CLASS,
        importance=Importance.HIGH,
        doc=f"Class of the {what.lower()} {alias}.",
        group=group,
        order=0,
        width=Width.LONG,
        display_name=f"{what} type for {alias}",
        recommender=_Offer(tuple(entry.name for entry in registry.all(kind))),
    )
    yield ConfigKey(
        f"{prefix}plugin.version",
        ConfigType.STRING,
        version,
        importance=Importance.HIGH,
        doc=f"Version of the {what.lower()} {alias}.",
        group=group,
        order=1,
        width=Width.LONG,
        display_name=f"{what} version for {alias}",
        recommender=None if version is None else _Offer((version,)),
    )
    if plugin is None:
        return
    assert issubclass(plugin, Transformation | Predicate)
    own = ConfigDef([*plugin.config_def(), *more]).on_a_form()
    for order, key in enumerate(own, start=2):
        own_group = group if key.group is None else f"{group}: {key.group}"
        yield replace(key.prefixed(prefix), group=own_group, order=order)
