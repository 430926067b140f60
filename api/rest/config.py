"""A worker's parsed REST properties: listeners, advertised address, CORS, headers, TLS."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from connect.config.definition import ParsedConfig
from connect.config.rest_access_keys import ALLOWED_HOSTS
from connect.config.types import invalid_value
from connect.config.worker_keys import WORKER_CONFIG_DEF
from connect.errors import ConfigError

__all__ = [
    "AnswerHeader",
    "CorsRules",
    "HostRules",
    "Listener",
    "RestConfig",
    "allowed_hosts",
    "parse_answer_headers",
    "parse_listener",
]

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)/?")
_HIGHEST_PORT = 65_535
_ACTIONS = {"set": (True, False), "add": (False, False)} | {
    "setdate": (True, True),
    "adddate": (False, True),
}
_HEADER = re.compile(r"\s*(\S+)\s+([^\s:]+)\s*:(.*)", re.DOTALL)
_JETTY_CORS_METHODS = ("HEAD", "POST", "GET")
# Commas within double quotes do not separate.
_CSV = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,]*))\s*(?:,|\Z)')


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener. `protocol`: http or https. `host`: may be empty (all addresses). `port`: 0
    means any free port."""

    protocol: str
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.protocol}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class AnswerHeader:
    """One entry of response.http.headers.config. `replaces`: set the header instead of adding it.
    `is_date`: the value is a number of ms from now."""

    name: str
    value: str
    replaces: bool
    is_date: bool


@dataclass(frozen=True, slots=True)
class CorsRules:
    """The origins that browsers may send requests from (patterns, or `*`), and the allowed
    methods."""

    origins: tuple[re.Pattern[str], ...]
    any_origin: bool
    methods: tuple[str, ...]

    def allows(self, origin: str) -> bool:
        return self.any_origin or any(pattern.fullmatch(origin) for pattern in self.origins)


@dataclass(frozen=True, slots=True)
class HostRules:
    """The names by which a worker may be called, against pages that let their own name resolve to
    the worker's address (DNS rebinding). Only a name can do that, so IP addresses are allowed.

    `listed`: the operator's list, which holds for all requests. `own`: names that the worker knows
    it has. `browsers`: without a list, hold it against changes that browsers send.
    """

    listed: frozenset[str]
    own: frozenset[str]
    browsers: bool = True

    def without_list(self) -> HostRules:
        """Return the rules for a worker with authentication: only the operator's list counts.
        Pages that use DNS rebinding do no harm there, because the browser sends no credentials."""
        return replace(self, browsers=False)

    def allows(self, host: str, *, browser_change: bool) -> bool:
        """Return whether a request with this Host header is allowed. `browser_change`: it would
        change something, and a browser sent it."""
        if "*" in self.listed or not (self.listed or (self.browsers and browser_change)):
            return True
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return name in self.listed | self.own or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RestConfig:
    """The REST properties. `admin_listeners`: None serves the admin resources on the main
    listeners; an empty tuple disables them."""

    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    advertised_host: str | None
    advertised_port: int | None
    advertised_protocol: str | None
    cors: CorsRules | None
    answer_headers: tuple[AnswerHeader, ...]
    extensions: tuple[str, ...]
    tls: Mapping[str, str] = field(repr=False)
    """The `ssl.*` properties of listeners and of requests to other workers."""
    admin_tls: Mapping[str, str] = field(repr=False)
    hosts: HostRules

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> RestConfig:
        """Parse a worker's properties. Raises ConfigError for the first invalid value."""
        keys = [key for key in WORKER_CONFIG_DEF if key.name in _KEYS]
        parsed = type(WORKER_CONFIG_DEF)(keys).parse(props)
        admin = None
        if props.get("admin.listeners") is not None:
            admin = tuple(
                parse_listener(text, "admin.listeners")
                for text in parsed.strings("admin.listeners")
                if text
            )
        return cls(
            listeners=tuple(
                parse_listener(text, "listeners") for text in parsed.strings("listeners")
            ),
            admin_listeners=admin,
            advertised_host=parsed.optional_string("rest.advertised.host.name") or None,
            advertised_port=parsed.optional_integer("rest.advertised.port"),
            advertised_protocol=_advertised_protocol(parsed),
            cors=_cors(parsed),
            answer_headers=parse_answer_headers(
                parsed.optional_string("response.http.headers.config") or ""
            ),
            extensions=parsed.strings("rest.extension.classes"),
            tls=_tls(props, "listeners.https."),
            admin_tls=_tls(props, "admin.listeners.https."),
            hosts=_hosts(parsed),
        )

    def advertised(self, bound: Mapping[Listener, int], local_host: str) -> tuple[str, str, int]:
        """Return the (protocol, host, port) that other workers use. `bound`: the listeners' actual
        ports.

        The protocol is the configured one; otherwise http if a listener has it. Host and port are
        the configured ones; otherwise those of the first listener with that protocol.
        """
        protocol = self.advertised_protocol
        if protocol is None:
            spoken = {listener.protocol for listener in self.listeners}
            protocol = "http" if "http" in spoken else "https"
        own = next((one for one in self.listeners if one.protocol == protocol), self.listeners[0])
        host = self.advertised_host or own.host or local_host
        port = self.advertised_port or bound.get(own, own.port)
        return protocol, host, port


_KEYS = frozenset(
    {
        "listeners",
        "admin.listeners",
        "rest.advertised.host.name",
        "rest.advertised.port",
        "rest.advertised.listener",
        "rest.extension.classes",
        "access.control.allow.origin",
        "access.control.allow.methods",
        "response.http.headers.config",
        ALLOWED_HOSTS,
    }
)


def parse_listener(text: str, key: str = "listeners") -> Listener:
    """Parse `http://host:port` or `https://host:port`. Raises ConfigError for `key`."""
    found = _LISTENER.fullmatch(text.strip())
    protocol = found[1].lower() if found else ""
    port = int(found[3]) if found else -1
    if not found or protocol not in ("http", "https") or not 0 <= port <= _HIGHEST_PORT:
        raise invalid_value(
            key,
            text,
            "use http://host:port or https://host:port, for example http://localhost:8083",
        )
    return Listener(protocol, found[2], port)


def parse_answer_headers(text: str) -> tuple[AnswerHeader, ...]:
    """Parse `response.http.headers.config`: entries of `action name:value`, separated by commas. An
    entry with a comma in its value is quoted. Raises ConfigError."""
    return tuple(_answer_header(entry) for entry in _csv(text) if entry.strip())


def _csv(text: str) -> list[str]:
    entries = []
    end = 0
    while end < len(text):
        found = _CSV.match(text, end)
        if found is None:
            raise _bad_header(text, "a quotation mark is not closed")
        quoted = found[1]
        entries.append(found[2] if quoted is None else quoted.replace('""', '"'))
        end = found.end()
    return entries


def _answer_header(entry: str) -> AnswerHeader:
    found = _HEADER.fullmatch(entry)
    if found is None:
        raise _bad_header(entry, "expected [action] [header name]:[header value]")
    action = _ACTIONS.get(found[1].lower())
    if action is None:
        raise _bad_header(entry, "the action must be one of set, add, setDate, addDate")
    replaces, is_date = action
    value = found[3].strip()
    if is_date and not re.fullmatch(r"-?[0-9]{1,15}", value):
        raise _bad_header(entry, "the value of a date must be a number of milliseconds from now")
    if "\n" in value or "\r" in value:
        raise _bad_header(entry, "the value of a header must not contain a line break")
    return AnswerHeader(found[2], value, replaces, is_date)


def _bad_header(entry: str, reason: str) -> ConfigError:
    return invalid_value("response.http.headers.config", entry, reason)


def _advertised_protocol(parsed: ParsedConfig) -> str | None:
    key = "rest.advertised.listener"
    given = (parsed.optional_string(key) or "").lower()
    if given not in ("", "http", "https"):
        raise invalid_value(key, given, "must be http or https")
    return given or None


def _cors(parsed: ParsedConfig) -> CorsRules | None:
    key = "access.control.allow.origin"
    origins = [text.strip() for text in (parsed.optional_string(key) or "").split(",")]
    origins = [text for text in origins if text]
    if not origins:
        return None
    methods = (parsed.optional_string("access.control.allow.methods") or "").split(",")
    patterns = []
    for text in origins:
        if text != "*":
            try:
                patterns.append(re.compile(text, re.IGNORECASE))
            except re.error as error:
                raise invalid_value(
                    key, text, f"not a valid regular expression: {error}"
                ) from error
    return CorsRules(
        tuple(patterns),
        "*" in origins,
        tuple(text.strip().upper() for text in methods if text.strip()) or _JETTY_CORS_METHODS,
    )


def allowed_hosts(listed: Iterable[str], hosts: Iterable[str]) -> HostRules:
    """Return the rules for listeners with these hosts. `listed`: rest.allowed.hosts."""
    own = {"localhost", socket.gethostname(), *hosts}
    return HostRules(
        frozenset(name.strip().lower() for name in listed),
        frozenset(name.lower() for name in own) - {""},
    )


def _hosts(parsed: ParsedConfig) -> HostRules:
    listeners = (parse_listener(text, "listeners") for text in parsed.strings("listeners"))
    advertised = parsed.optional_string("rest.advertised.host.name") or ""
    return allowed_hosts(
        parsed.strings(ALLOWED_HOSTS), [advertised, *(each.host for each in listeners)]
    )


def _tls(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return all keys that have the prefix, with the prefix removed; if there are none, the
    worker's own `ssl.*`."""
    own = {
        key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)
    }
    return own or {key: value for key, value in props.items() if key.startswith("ssl.")}
