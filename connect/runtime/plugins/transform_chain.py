"""Create and check a connector's transformation chain from its config.

transforms=a,b
transforms.a.type=<class>     and the transformation's own keys, after transforms.a.
transforms.a.predicate=p      optional: only for records that predicate p lets through
transforms.a.negate=true      ... or only for the others
predicates=p
predicates.p.type=<class>     and the predicate's own keys
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.connector import CONNECTOR_KEYS
from connect.config.definition import ConfigDef
from connect.config.types import ConfigType, invalid_value, parse_value
from connect.data.transforms.base import Predicate, Transformation
from connect.data.transforms.chain import TransformChain, TransformStage
from connect.errors import ConfigError
from connect.runtime.plugins.instances import make_plugin
from connect.runtime.plugins.registry import PluginRegistry

__all__ = ["has_transforms", "make_chain", "transforms_refused"]


_ALIASES_DEF = ConfigDef(
    [key for key in CONNECTOR_KEYS if key.name in ("transforms", "predicates")]
)
_OWN_KEYS = ("type", "predicate", "negate", "plugin.version")


def has_transforms(config: Mapping[str, str]) -> bool:
    """Return whether the config has any transformation."""
    return bool(config.get("transforms", "").strip())


def make_chain(plugins: PluginRegistry, config: Mapping[str, str]) -> TransformChain:
    """Return a connector's configured chain. Its owner closes it. Raises `ConfigError`."""
    if not has_transforms(config) and not config.get("predicates", "").strip():
        return TransformChain()
    aliases = _ALIASES_DEF.parse(config)
    known = aliases.strings("predicates")
    for alias in known:
        # Predicates that no transformation uses are checked, too.
        _predicate(plugins, config, alias).close()
    return TransformChain(
        [_stage(plugins, config, alias, known) for alias in aliases.strings("transforms")]
    )


def _stage(
    plugins: PluginRegistry, config: Mapping[str, str], alias: str, predicates: tuple[str, ...]
) -> TransformStage:
    prefix = f"transforms.{alias}."
    found = plugins.find(Transformation, _type_of(config, prefix), f"{prefix}type")
    class_name = plugins.name_of(found)
    transformation = make_plugin(found, f"{prefix}type", class_name)
    _configure(transformation, config, prefix)
    predicate_alias = config.get(f"{prefix}predicate")
    negate = config.get(f"{prefix}negate")
    if predicate_alias is None:
        if negate is not None:
            raise ConfigError(
                f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate'"
                " defining a predicate to be negated.",
                key=f"{prefix}negate",
                value=negate,
            )
        return TransformStage(alias, transformation, class_name)
    predicate_alias = predicate_alias.strip()
    if predicate_alias not in predicates:
        raise invalid_value(
            f"{prefix}predicate",
            predicate_alias,
            f"no such predicate; predicates lists: {', '.join(predicates) or 'none'}",
        )
    negated = parse_value(f"{prefix}negate", negate or "false", ConfigType.BOOLEAN) is True
    predicate = _predicate(plugins, config, predicate_alias)
    return TransformStage(alias, transformation, class_name, predicate, negated)


def _predicate(plugins: PluginRegistry, config: Mapping[str, str], alias: str) -> Predicate:
    prefix = f"predicates.{alias}."
    key = f"{prefix}type"
    found = plugins.find(Predicate, _type_of(config, prefix), key)
    predicate = make_plugin(found, key, plugins.name_of(found))
    _configure(predicate, config, prefix)
    return predicate


def _type_of(config: Mapping[str, str], prefix: str) -> str:
    name = config.get(f"{prefix}type", "").strip()
    if not name:
        raise ConfigError(
            f'Missing required configuration "{prefix}type" which has no default value.',
            key=f"{prefix}type",
        )
    return name


def _configure(plugin: Transformation | Predicate, config: Mapping[str, str], prefix: str) -> None:
    own = {
        key[len(prefix) :]: value
        for key, value in config.items()
        if key.startswith(prefix) and key[len(prefix) :] not in _OWN_KEYS
    }
    try:
        plugin.configure(own)
    except ConfigError as error:
        key = f"{prefix}{error.key}" if error.key else f"{prefix}type"
        raise ConfigError(f"{key}: {error}", key=key, value=error.value) from error


def transforms_refused(connector: str, config: Mapping[str, str]) -> ConfigError:
    """Return the error for transformations on a connector with transfer tasks."""
    return invalid_value(
        "transforms",
        config["transforms"],
        f"the tasks of {connector} forward record batches unchanged and run no "
        "transformations; remove the key",
    )
