"""Validates a connector's config like Kafka Connect's `validate`, key by key.

The order is: keys of all connectors, keys of transformations and predicates, the connector's own
keys, client overrides, and keys of converters. Nothing is started and no cluster is queried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from connect.config.client_keys import ADMIN_CONFIG_DEF, CONSUMER_CONFIG_DEF, PRODUCER_CONFIG_DEF
from connect.config.connector import CONNECTOR_KEYS, SINK_CONNECTOR_KEYS, SOURCE_CONNECTOR_KEYS
from connect.config.definition import ConfigDef, ConfigKey, ConfigProblem, ConfigValue
from connect.config.java_regex import JavaRegexError, compile_java_regex
from connect.config.regex_budget import regex_budget
from connect.config.types import HIDDEN, ConfigType, parse_value
from connect.data.converters.base import Converter
from connect.data.transforms.chain import TransformChain
from connect.errors import ConfigError
from connect.plugin import Connector, TransferTask
from connect.runtime.errors import BadRequest
from connect.runtime.plugins.override_policy import (
    ClientKind,
    ConnectorClientConfigOverridePolicy,
    OverrideRequest,
    overridable_clients,
    overrides_of,
)
from connect.runtime.plugins.registry import PluginKind, PluginRegistry
from connect.runtime.plugins.transform_chain import has_transforms, make_chain, transforms_refused
from connect.runtime.plugins.versions import VersionRange
from connect.runtime.rest_entities import ConfigInfo, ConfigInfos
from connect.runtime.validation.plugin_keys import class_value, plugin_class_keys, stage_keys
from connect.runtime.validation.references import References

__all__ = ["ConfigValidator", "Preflight", "invalid_config"]

_Props = Mapping[str, str | None]

Preflight = Callable[[type[Connector], Mapping[str, str]], Sequence[ConfigProblem]]
"""Additional rules of one kind of herder for the keys of all connectors."""

_NULL_VALUE = "Null value can not be supplied as the configuration value."
_CLIENT_DEFS: Mapping[ClientKind, ConfigDef] = {
    "producer": PRODUCER_CONFIG_DEF,
    "consumer": CONSUMER_CONFIG_DEF,
    "admin": ADMIN_CONFIG_DEF,
}
_CLASS_AND_VERSION_KEYS = frozenset(
    f"{use}.converter{suffix}"
    for use in ("key", "value", "header")
    for suffix in ("", ".plugin.version")
)
# Properties whose values must not appear in answers.
_SECRET = re.compile(r"passw|passphrase|secret|jaas|credential|token|\bkey$", re.IGNORECASE)


@dataclass
class _Outcome:
    """The validation results so far: keys and values in the order of the response."""

    keys: dict[str, ConfigKey] = field(default_factory=dict)
    values: dict[str, ConfigValue] = field(default_factory=dict)
    kept: dict[str, list[str]] = field(default_factory=dict)
    """Errors that stay even if the connector defines the key itself."""

    def take(self, definition: ConfigDef, props: _Props) -> None:
        """Validate with a definition, which replaces keys that were defined before."""
        self.keys.update(definition.keys)
        for value in definition.validate(props):
            more = [text for text in self.kept.get(value.name, ()) if text not in value.errors]
            self.values[value.name] = replace(value, errors=(*value.errors, *more))

    def add_error(self, key: str, message: str) -> None:
        value = self.values.get(key, ConfigValue(key, None))
        self.values[key] = replace(value, errors=(*value.errors, message))

    def keep_error(self, key: str, message: str) -> None:
        self.kept.setdefault(key, []).append(message)
        self.add_error(key, message)

    def infos(self) -> list[ConfigInfo]:
        unknown = [
            _info(None, value) for value in self.values.values() if value.name not in self.keys
        ]
        return unknown + [_info(key, self.values[key.name]) for key in self.keys.values()]

    def error_count(self) -> int:
        return sum(len(value.errors) for value in self.values.values())


class ConfigValidator:
    """Validates configs for one worker. Thread-safe.

    `resolve` replaces config provider references. `permissions` finds what the operator does not
    permit; then no code runs that the config may have chosen. `preflight` adds rules of the herder.
    `exactly_once`: source tasks of this worker write exactly once.
    """

    def __init__(
        self,
        plugins: PluginRegistry,
        resolve: Callable[[Mapping[str, str]], dict[str, str]],
        policy: ConnectorClientConfigOverridePolicy,
        *,
        permissions: Preflight | None = None,
        preflight: Preflight | None = None,
        exactly_once: bool = False,
    ) -> None:
        self._plugins = plugins
        self._resolve = resolve
        self._policy = policy
        self._permissions = permissions
        self._preflight = preflight
        self._exactly_once = exactly_once

    def validate(self, config: _Props) -> ConfigInfos:
        """Validate a config. Raises `BadRequest` if it names no usable connector class."""
        given = {key: value for key, value in config.items() if value is not None}
        resolved = self._resolve(given)
        references = References(given, resolved)
        try:
            with regex_budget():
                return references.shown(self._validated(config, resolved))
        except BadRequest as error:
            raise BadRequest(references.in_text(str(error))) from None

    def _validated(self, config: _Props, resolved: dict[str, str]) -> ConfigInfos:
        props: _Props = {**config, **resolved}
        class_name = resolved.get("connector.class")
        if class_name is None:
            shown = ", ".join(f"{key}={_shown(key, value)}" for key, value in config.items())
            raise BadRequest(f"Connector config {{{shown}}} contains no connector type")
        connector = self._connector(class_name.strip())
        wanted = VersionRange.parse(resolved.get("connector.plugin.version"))
        version = self._plugins.version_of(connector)
        if version not in wanted:
            return self._wrong_version(connector, version, wanted, props)
        outcome = _Outcome()
        forbidden = self._forbidden(connector, resolved)
        for problem in forbidden:
            outcome.keep_error(problem.key, problem.message)
        permitted = not forbidden
        self._check_framework_keys(outcome, connector, props, permitted=permitted)
        self._check_stages(outcome, connector, resolved)
        groups = list(ConfigDef(outcome.keys.values()).groups)
        self._check_own_keys(outcome, connector, props, resolved, permitted=permitted)
        groups += connector.config_def().groups
        overrides = [
            info
            for client in overridable_clients(
                connector.connector_type(), resolved, exactly_once=self._exactly_once
            )
            for info in self._check_overrides(client, connector, resolved)
        ]
        converters: list[ConfigInfo] = []
        for use in ("header", "key", "value"):
            found = self._check_converter(f"{use}.converter", outcome, resolved)
            converters += found
            groups += [info.group for info in found if info.group is not None]
        extra = [*overrides, *converters]
        return ConfigInfos(
            class_name,
            outcome.error_count() + sum(bool(info.value.errors) for info in extra),
            list(dict.fromkeys(groups)),
            [*outcome.infos(), *extra],
        )

    def _connector(self, class_name: str) -> type[Connector]:
        try:
            return self._plugins.connector(class_name)
        except ConfigError as error:
            known = ", ".join(
                entry.name
                for kind in (PluginKind.SINK, PluginKind.SOURCE)
                for entry in self._plugins.all(kind)
            )
            raise BadRequest(
                "Failed to find any class that implements Connector and which name matches"
                f" {class_name}, available connectors are: {known}"
            ) from error

    def _wrong_version(
        self, connector: type[Connector], version: str, wanted: VersionRange, props: _Props
    ) -> ConfigInfos:
        outcome = _Outcome()
        definition = ConfigDef(CONNECTOR_KEYS)
        outcome.take(definition, props)
        _hide_versions(outcome)
        message = (
            f"Plugin {self._plugins.name_of(connector)} not found that matches the version range"
            f" {wanted}, available versions: [{version}]"
        )
        outcome.add_error("connector.class", message)
        outcome.add_error("connector.plugin.version", message)
        key = "connector.plugin.version"
        outcome.keys[key] = replace(outcome.keys[key], default=version)
        outcome.values[key] = replace(outcome.values[key], recommended_values=(version,))
        return ConfigInfos(
            props.get("connector.class") or "",
            outcome.error_count(),
            list(definition.groups),
            outcome.infos(),
        )

    def _forbidden(
        self, connector: type[Connector], resolved: Mapping[str, str]
    ) -> Sequence[ConfigProblem]:
        """Return what the operator does not permit."""
        return [] if self._permissions is None else self._permissions(connector, resolved)

    def _check_framework_keys(
        self, outcome: _Outcome, connector: type[Connector], props: _Props, *, permitted: bool
    ) -> None:
        source = connector.connector_type() == "source"
        keys = SOURCE_CONNECTOR_KEYS if source else SINK_CONNECTOR_KEYS
        outcome.take(ConfigDef([*keys, *stage_keys(self._plugins, props)]), props)
        for key in plugin_class_keys(props):
            value = class_value(self._plugins, key, outcome.values[key.name], props)
            outcome.values[key.name] = value
            if key.name.startswith("transforms."):
                _check_negate(outcome, key.name.removesuffix("type"), props)
        _hide_versions(outcome)
        for problem in _sink_problems(props) if not source else ():
            outcome.keep_error(problem.key, problem.message)
        if self._preflight is not None and permitted:
            given = {key: value for key, value in props.items() if value is not None}
            for problem in self._preflight(connector, given):
                outcome.keep_error(problem.key, problem.message)
        for name, given_value in props.items():
            if given_value is None:
                outcome.add_error(name, _NULL_VALUE)

    def _check_stages(
        self, outcome: _Outcome, connector: type[Connector], resolved: Mapping[str, str]
    ) -> None:
        """Add errors that only show when transformations and predicates are created.

        Their keys are valid already.
        """
        prefixes = ("transforms", "predicates")
        if any(value.errors for key, value in outcome.values.items() if key.startswith(prefixes)):
            return
        try:
            with closing(make_chain(self._plugins, resolved)) as chain:
                if has_transforms(resolved):
                    self._check_transfer(chain, connector, resolved)
        except ConfigError as error:
            key = error.key if error.key in outcome.keys else "transforms"
            outcome.keep_error(key or "transforms", str(error))

    def _check_transfer(
        self, chain: TransformChain, connector: type[Connector], resolved: Mapping[str, str]
    ) -> None:
        """Raise `ConfigError` for transformations that a connector with transfer tasks cannot
        run."""
        task = connector.task_class_for(resolved) or connector().task_class()
        if issubclass(task, TransferTask):
            if task.transforms_prefix() is None:
                raise transforms_refused(self._plugins.name_of(connector), resolved)
            chain.check_routes()

    def _check_own_keys(
        self,
        outcome: _Outcome,
        connector: type[Connector],
        props: _Props,
        resolved: Mapping[str, str],
        *,
        permitted: bool,
    ) -> None:
        """Validate the connector's own keys.

        A key that the framework also defines keeps its position, and `connector.class` its full
        name.
        """
        before = dict(outcome.values)
        outcome.take(connector.config_def(), props)
        for name, value in before.items():
            if name in _CLASS_AND_VERSION_KEYS and (name not in props or props[name] is not None):
                outcome.values[name] = value
        found = {value.name for value in outcome.values.values() if value.errors}
        for problem in connector.validate(resolved) if permitted else ():
            if problem.key in found:
                continue
            own = connector.config_def().keys.get(problem.key)
            if own is None or own.type is ConfigType.CLASS:
                # Java's output for classes that cannot be loaded, and for keys that the connector
                # does not define.
                outcome.values[problem.key] = ConfigValue(problem.key, None)
            outcome.add_error(problem.key, problem.message)

    def _check_overrides(
        self, client: ClientKind, connector: type[Connector], props: Mapping[str, str]
    ) -> list[ConfigInfo]:
        prefix = f"{client}.override."
        overridden = overrides_of(client, props)
        refusals = self._policy.refusals(
            OverrideRequest(props.get("name", ""), connector.connector_type(), client, overridden)
        )
        infos = []
        for name, text in overridden.items():
            key = _CLIENT_DEFS[client].keys.get(name)
            if key is None:
                value = ConfigValue(prefix + name, _shown(name, text))
            else:
                # The client checks the value; only its type is checked here.
                key = replace(key, validator=None).prefixed(prefix)
                (value,) = ConfigDef([key]).validate({prefix + name: text})
            if name in refusals:
                value = replace(value, errors=(*value.errors, refusals[name]))
            infos.append(_info(key, value))
        return infos

    def _check_converter(
        self, key: str, outcome: _Outcome, props: Mapping[str, str]
    ) -> list[ConfigInfo]:
        """Return the converter's own keys, or none if the config names no converter."""
        value = outcome.values[key]
        if value.value is None or value.errors:
            return []
        wanted = VersionRange.parse(props.get(f"{key}.plugin.version"))
        converter = self._plugins.find(Converter, value.value, key)
        if self._plugins.version_of(converter) not in wanted:
            return []
        return _converter_infos(converter, key, props)


def _converter_infos(
    converter: type[Converter], key: str, props: Mapping[str, str]
) -> list[ConfigInfo]:
    prefix = f"{key}."
    own = {name[len(prefix) :]: text for name, text in props.items() if name.startswith(prefix)}
    own.setdefault("converter.type", key.partition(".")[0])
    infos = []
    definition = converter.config_def()
    for plain, value in zip(definition, definition.validate(own), strict=True):
        infos.append(_info(plain.prefixed(prefix), replace(value, name=prefix + value.name)))
    return infos


def _info(key: ConfigKey | None, value: ConfigValue) -> ConfigInfo:
    if key is None:
        return ConfigInfo(None, value)
    return ConfigInfo(key, value, key.group, key.order)


def _hide_versions(outcome: _Outcome) -> None:
    """Hide the version key of a converter that is not configured."""
    for use in ("key", "value", "header"):
        name = f"{use}.converter.plugin.version"
        visible = outcome.values[f"{use}.converter"].value is not None
        outcome.values[name] = replace(outcome.values[name], visible=visible)


def _check_negate(outcome: _Outcome, prefix: str, props: _Props) -> None:
    if props.get(f"{prefix}negate") is not None and props.get(f"{prefix}predicate") is None:
        outcome.add_error(
            f"{prefix}type",
            f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate'"
            " defining a predicate to be negated.",
        )


def _sink_problems(props: _Props) -> Iterable[ConfigProblem]:
    """Yield contradictions between the topic keys of a sink."""
    parsed = parse_value("topics", props.get("topics"), ConfigType.LIST)
    topics = parsed if isinstance(parsed, tuple) else ()
    regex = (props.get("topics.regex") or "").strip()
    dead_letters = (props.get("errors.deadletterqueue.topic.name") or "").strip()
    text = None
    if topics and regex:
        text = "topics and topics.regex are mutually exclusive options, but both are set."
    if not topics and not regex:
        text = "Must configure one of topics or topics.regex"
    if text is not None:
        yield ConfigProblem("topics", text)
        yield ConfigProblem("topics.regex", text)
    elif dead_letters and dead_letters in topics:
        yield ConfigProblem(
            "topics",
            f"The DLQ topic '{dead_letters}' may not be included in the list of topics"
            f" ('topics=[{', '.join(topics)}]') consumed by the connector",
        )
    elif dead_letters and regex and _matches(regex, dead_letters):
        yield ConfigProblem(
            "topics.regex",
            f"The DLQ topic '{dead_letters}' may not be matched by the regex for the topics"
            f" ('topics.regex={regex}') consumed by the connector",
        )


def _matches(regex: str, topic: str) -> bool:
    try:
        return compile_java_regex(regex).fullmatch(topic) is not None
    except JavaRegexError:
        # The key's own validator reports it.
        return False


def _shown(key: str, value: str | None) -> str:
    return HIDDEN if value is not None and _SECRET.search(key) else str(value)


def invalid_config(infos: ConfigInfos) -> BadRequest | None:
    """Return the error for an invalid config, or None if it is valid."""
    if infos.error_count == 0:
        return None
    messages = [error for info in infos.configs for error in info.value.errors]
    lines = "".join(f"\n{message}" for message in messages)
    return BadRequest(
        f"Connector configuration is invalid and contains the following {infos.error_count}"
        f" error(s):{lines}\nYou can also find the above list of errors at the endpoint"
        " `/connector-plugins/{connectorType}/config/validate`"
    )
