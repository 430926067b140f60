"""Config providers, which resolve `${provider:path:key}` and `${provider:key}` in property values.

Providers are declared as in Java: `config.providers=a,b`, `config.providers.a.class=...`,
`config.providers.a.param.*`. A reference to an unknown provider, path or key stays unchanged.
Resolved values are not resolved again. They may be secrets and are never logged.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple

from connect.config.bounded_files import read_regular_file
from connect.config.java_regex import JavaRegexError, compile_java_regex
from connect.config.properties import parse_properties
from connect.config.secrets import is_secret_name, remember, remember_properties
from connect.config.types import ConfigType, invalid_value, parse_value
from connect.config.validators import ValidList
from connect.config.vault import VaultClient, VaultSettings
from connect.errors import ConfigError

__all__ = [
    "ConfigProvider",
    "ConfigProviders",
    "DirectoryConfigProvider",
    "EnvVarConfigProvider",
    "FileConfigProvider",
    "FindProvider",
    "ResolvedConfig",
    "VaultConfigProvider",
    "has_reference",
]

log = logging.getLogger(__name__)

CONFIG_PROVIDERS = "config.providers"
ALLOWED_PATHS = "allowed.paths"
ALLOWLIST_PATTERN = "allowlist.pattern"


def has_reference(value: str) -> bool:
    """Return whether a property value contains a `${provider:key}`, of a known provider or not."""
    return next(_references(value), None) is not None


def is_reference(value: str) -> bool:
    """Return whether a property value is nothing but one `${provider:key}`."""
    text = value.strip()
    found = next(_references(text), None)
    return found is not None and (found.begin, found.end) == (0, len(text))


class _Reference(NamedTuple):
    """`${name:path:key}` or `${name:key}` in a text, from `begin` to before `end`."""

    begin: int
    end: int
    name: str
    path: str
    key: str


def _references(text: str) -> Iterator[_Reference]:
    """Yield the references in a text, first to last.

    A regular expression is not used, because its time grows with the fourth power of the length of
    some texts, and any user that may validate a config chooses the texts.
    """
    end = 0
    while (begin := text.find("${", end)) >= 0:
        close = text.find("}", begin)
        if close < 0:
            return
        end = close + 1
        name, colon, rest = text[begin + 2 : close].partition(":")
        path, second, key = rest.partition(":")
        if second:
            yield _Reference(begin, end, name, path, key)
        elif colon:
            yield _Reference(begin, end, name, "", rest)


class ConfigProvider(ABC):
    """Looks up values by path and key. Created without arguments and configured once.

    Then used from any thread.
    """

    def configure(self, parameters: Mapping[str, str]) -> None:  # noqa: B027 - optional hook
        """Accept the `config.providers.<alias>.param.` properties, without the prefix.

        Raises `ConfigError`.
        """

    @abstractmethod
    def get(self, path: str) -> Mapping[str, str]:
        """Return all values at `path` ("" if the reference has none); empty if there are none.

        Raises ConfigError if the path exists but cannot be read.
        """

    def ttl_s(self, path: str) -> float | None:
        """Return for how many seconds the last result of `get` for this path is valid, or None.

        Connectors that use it are restarted afterwards (`config.action.reload`).
        """
        return None


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """Properties without references. `ttl_s`: seconds until the first value expires, or None."""

    values: dict[str, str] = field(repr=False)
    ttl_s: float | None


class AllowedPaths:
    """The `allowed.paths` of a provider, outside of which no file is read. None: no limit."""

    def __init__(self, parameter: str, text: str | None) -> None:
        self._roots: tuple[PurePath, ...] | None = None
        if not text:
            return
        roots = []
        for element in text.split(","):
            root = Path(os.path.normpath(element.strip()))
            if not root.is_absolute():
                raise invalid_value(parameter, element, "Path is not absolute")
            if not root.exists():
                raise invalid_value(parameter, element, "Path does not exist")
            roots.append(root)
        self._roots = tuple(roots)

    def permit(self, path: str) -> Path | None:
        """Return `path`, or None if it is outside. `..` is resolved before the comparison."""
        if self._roots is not None:
            normal = PurePath(os.path.normpath(path))
            if not any(normal.is_relative_to(root) for root in self._roots):
                log.warning(
                    "Config provider: path %s is not under %s; add its directory there, or "
                    "correct the reference",
                    path,
                    ALLOWED_PATHS,
                )
                return None
        return Path(path)


class FileConfigProvider(ConfigProvider):
    """Reads keys of a .properties file (UTF-8), again at each lookup."""

    def __init__(self, parameters: Mapping[str, str], prefix: str) -> None:
        self._allowed = AllowedPaths(prefix + ALLOWED_PATHS, parameters.get(ALLOWED_PATHS))

    def get(self, path: str) -> Mapping[str, str]:
        permitted = self._allowed.permit(path) if path else None
        if permitted is None:
            return {}
        try:
            return parse_properties(read_regular_file(permitted).decode())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Could not read properties from file {path}: {error}") from error


class DirectoryConfigProvider(ConfigProvider):
    """Reads the files of a directory: each name is a key, each content (UTF-8) a value."""

    def __init__(self, parameters: Mapping[str, str], prefix: str) -> None:
        self._allowed = AllowedPaths(prefix + ALLOWED_PATHS, parameters.get(ALLOWED_PATHS))

    def get(self, path: str) -> Mapping[str, str]:
        directory = self._allowed.permit(path) if path else None
        if directory is None:
            return {}
        if not directory.is_dir():
            log.warning(
                "Config provider: the path %s is not a directory; mount or create it, or "
                "correct the reference",
                path,
            )
            return {}
        try:
            return {
                entry.name: read_regular_file(entry).decode()
                for entry in directory.iterdir()
                if entry.is_file()
            }
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Could not read directory {path}: {error}") from error


class EnvVarConfigProvider(ConfigProvider):
    """Looks up environment variables, as they were when the provider was created."""

    def __init__(
        self,
        parameters: Mapping[str, str],
        prefix: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        pattern = parameters.get(ALLOWLIST_PATTERN)
        try:
            allowed = compile_java_regex(pattern) if pattern else None
        except JavaRegexError as error:
            raise invalid_value(prefix + ALLOWLIST_PATTERN, pattern, str(error)) from error
        variables = os.environ if environment is None else environment
        self._variables = {
            name: value
            for name, value in variables.items()
            if allowed is None or allowed.fullmatch(name)
        }

    def get(self, path: str) -> Mapping[str, str]:
        if path:
            raise ConfigError(
                f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'",
                value=path,
            )
        return self._variables


class VaultConfigProvider(ConfigProvider):
    """Reads secrets from HashiCorp Vault (`connect.config.vault`), again at each lookup."""

    def __init__(self, parameters: Mapping[str, str], prefix: str) -> None:
        self._client = VaultClient(VaultSettings.from_parameters(parameters, prefix))

    def get(self, path: str) -> Mapping[str, str]:
        if not path:
            raise ConfigError("A reference to Vault needs a path: write ${vault:mount/name:key}")
        return self._client.read(path)

    def ttl_s(self, path: str) -> float | None:
        return self._client.ttl_s(path)


_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."
_FACTORIES: dict[str, Callable[[Mapping[str, str], str], ConfigProvider]] = {
    "FileConfigProvider": FileConfigProvider,
    "DirectoryConfigProvider": DirectoryConfigProvider,
    "EnvVarConfigProvider": EnvVarConfigProvider,
    "VaultConfigProvider": VaultConfigProvider,
}


FindProvider = Callable[[str, str], type[ConfigProvider]]
"""Finds the class for a name, which is the value of the property `key`. Raises `ConfigError`."""


class ConfigProviders:
    """The providers declared in a set of properties. Immutable; may be shared by threads."""

    def __init__(self, providers: Mapping[str, ConfigProvider]) -> None:
        self._providers = dict(providers)

    @classmethod
    def from_properties(
        cls, props: Mapping[str, str], find: FindProvider | None = None
    ) -> ConfigProviders:
        """Create providers from `config.providers*`. `find` looks up those that are not built in.

        Raises ConfigError if a class is missing or unknown.
        """
        names = parse_value(CONFIG_PROVIDERS, props.get(CONFIG_PROVIDERS, ""), ConfigType.LIST)
        aliases = ValidList().check(CONFIG_PROVIDERS, names)
        assert isinstance(aliases, tuple)
        return cls({alias: _make_provider(alias, props, find) for alias in aliases})

    def resolve(self, props: Mapping[str, str]) -> dict[str, str]:
        """Return `props` with every resolvable reference replaced by its value."""
        return self.resolve_for_now(props).values

    def resolve_for_now(self, props: Mapping[str, str]) -> ResolvedConfig:
        """Resolve `props` like `resolve`, and return how long the values are valid."""
        fetched: dict[tuple[str, str], Mapping[str, str]] = {}
        ttls: list[float] = []

        def value_of(found: _Reference) -> str | None:
            source = (found.name, found.path)
            provider = self._providers.get(found.name)
            if provider is None:
                return None
            if source not in fetched:
                fetched[source] = provider.get(found.path)
                ttl = provider.ttl_s(found.path)
                if ttl is not None:
                    ttls.append(ttl)
            value = fetched[source].get(found.key)
            if value is not None and is_secret_name(found.key):
                # The property that it is for may have any name.
                remember([value])
            return value

        values = {key: _replaced(value, value_of) for key, value in props.items()}
        remember_properties(values)
        return ResolvedConfig(values, min(ttls, default=None))


def _replaced(text: str, value_of: Callable[[_Reference], str | None]) -> str:
    """Return a text with values in place of references, as far as they have any."""
    parts, done = [], 0
    for found in _references(text):
        value = value_of(found)
        if value is not None:
            parts += [text[done : found.begin], value]
            done = found.end
    return "".join([*parts, text[done:]])


def _make_provider(
    alias: str, props: Mapping[str, str], find: FindProvider | None
) -> ConfigProvider:
    class_key = f"{CONFIG_PROVIDERS}.{alias}.class"
    class_name = props.get(class_key, "").strip()
    if not class_name:
        raise ConfigError(
            f'Missing required configuration "{class_key}" which has no default value.',
            key=class_key,
        )
    factory = _FACTORIES.get(class_name.removeprefix(_JAVA_PACKAGE))
    prefix = f"{CONFIG_PROVIDERS}.{alias}.param."
    parameters = {
        key[len(prefix) :]: value for key, value in props.items() if key.startswith(prefix)
    }
    if factory is not None:
        return factory(parameters, prefix)
    if find is None:
        known = ", ".join(_JAVA_PACKAGE + name for name in _FACTORIES)
        raise invalid_value(class_key, class_name, f"unknown config provider; use one of {known}")
    provider = find(class_name, class_key)()
    provider.configure(parameters)
    return provider
