"""Warnings about keys of mm2.properties that have no effect on their level, or look like typos.

MirrorMaker 2 silently ignores these keys, so users may rely on settings that do not apply. A
warning never contains a value, which may be a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from connect.clients.config.librdkafka_keys import KINDS, WITHOUT_COUNTERPART
from connect.config.otlp_keys import OTLP_ENDPOINT
from connect.config.rest_access_keys import ALLOWED_HOSTS
from connect.config.security import CLIENT_CONFIG_NAMES
from connect.config.worker_keys import DISTRIBUTED_CONFIG_DEF
from connectors.mirror.config.base import FORWARDING_ADMIN_KEY, JAVA_FORWARDING_ADMIN
from connectors.mirrormaker.config.precedence import (
    CONNECTOR_KEY_NAMES,
    SPARK_PREFIX,
    WORKER_FAMILIES,
    Flow,
    Setting,
)

__all__ = ["MAKER_KEY_NAMES", "advise", "comment_problem", "line_of"]

MAKER_KEY_NAMES = frozenset(
    {
        "clusters",
        "config.providers",
        "dedicated.mode.enable.internal.rest",
        "metrics.listener",
        ALLOWED_HOSTS,
        OTLP_ENDPOINT.name,
    }
)
_INTERNAL_REST_NAMES = frozenset(
    {
        "access.control.allow.methods",
        "access.control.allow.origin",
        "listeners",
        "response.http.headers.config",
        "rest.advertised.host.name",
        "rest.advertised.listener",
        "rest.advertised.port",
    }
)
_INTERNAL_REST_PREFIXES = ("listeners.https.",)
_CLIENT_KINDS = ("producer", "consumer", "admin")
# Keys that a flow may have besides the connectors' own.
_FLOW_NAMES = frozenset(
    {
        "exactly.once.support",
        "offsets.storage.topic",
        "transaction.boundary",
        "transaction.boundary.interval.ms",
        "use.defaults.from",
    }
)
_FLOW_PREFIXES = (
    "config.providers.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "mirror.transforms.",
    "offset-syncs.topic.",
    "predicates.",
    SPARK_PREFIX,
    "topic.creation.",
    "transforms.",
)
# The export is one of the whole process.
_WORKER_NAMES = frozenset(DISTRIBUTED_CONFIG_DEF.names) - {OTLP_ENDPOINT.name}
# Prefixes that arbitrary names may follow: topic configs of internal topics, converter options.
_WORKER_PREFIXES = (
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "listeners.https.",
    "admin.listeners.https.",
)
_COMPRESSION_LEVELS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
_CLIENT_NAMES: dict[str, frozenset[str]] = {
    kind: frozenset(
        {
            *table,
            *WITHOUT_COUNTERPART,
            *CLIENT_CONFIG_NAMES,
            *(_COMPRESSION_LEVELS if kind == "producer" else ()),
        }
    )
    for kind, table in KINDS.items()
}
_OWN_CLASS = "is ignored: each of a flow's connectors has a class of its own"
# What looks like a comment behind a value. Java reads it as a part of the value, too.
_COMMENT = re.compile(r"\s#")
_MAY_HAVE_HASHES = ("jaas.config", "password")
# Minimum similarity of two names (0 to 1) for one to be reported as a typo of the other.
_LIKENESS = 0.8


def advise(props: Mapping[str, Setting], clusters: Collection[str]) -> Iterator[str]:
    """Return one sentence per questionable key, in the order of the file."""
    flows = [Flow(a, b) for a in clusters for b in clusters if a != b]
    own_admin = any(
        key.endswith(FORWARDING_ADMIN_KEY) and setting.value.strip() != JAVA_FORWARDING_ADMIN
        for key, setting in props.items()
    )
    for key, setting in props.items():
        if own_admin and ".admin." in key:
            continue  # A class of the user's own may read any of them.
        for problem in (_problem(key, props, clusters, flows), comment_problem(key, setting)):
            if problem:
                yield f"{setting.key or key}{line_of(setting)} {problem}"


def line_of(setting: Setting) -> str:
    """Return the setting's line in its file, to follow its key in a message."""
    return "" if setting.line is None else f" (line {setting.line})"


def _problem(
    key: str, props: Mapping[str, Setting], clusters: Collection[str], flows: Iterable[Flow]
) -> str | None:
    for flow in flows:
        if key.startswith(f"{flow}."):
            return _flow_problem(key.removeprefix(f"{flow}."), flow)
    if "->" in key:
        return _unknown_flow(key, clusters)
    for alias in sorted(clusters, key=len, reverse=True):
        if key.startswith(f"{alias}."):
            return _cluster_problem(key.removeprefix(f"{alias}."), alias, props)
    return _top_level_problem(key, clusters)


def comment_problem(key: str, setting: Setting) -> str | None:
    """Return why the end of a value that looks like a comment is none; None for other values."""
    if key.endswith(_MAY_HAVE_HASHES) or not _COMMENT.search(setting.value):
        return None
    return (
        "has a # in its value, which does not start a comment there: put comments on lines of "
        "their own"
    )


def _unknown_flow(key: str, clusters: Collection[str]) -> str:
    flow = key.split("->", 1)
    source, target = flow[0], flow[1].split(".", 1)[0]
    missing = [alias for alias in (source, target) if alias not in clusters]
    if not missing:
        return f"has no effect: source and target of {source}->{target} are the same cluster"
    return f"has no effect: not among clusters={','.join(clusters)}: {' and '.join(missing)}"


def _top_level_problem(key: str, clusters: Collection[str]) -> str | None:
    if key == "connector.class":
        return _OWN_CLASS
    if (
        key in MAKER_KEY_NAMES | CONNECTOR_KEY_NAMES | CLIENT_CONFIG_NAMES | _INTERNAL_REST_NAMES
        or key.startswith(
            ("config.providers.", SPARK_PREFIX, *WORKER_FAMILIES, *_INTERNAL_REST_PREFIXES)
        )
    ):
        # Families of keys are compared by name only. Keys such as `tasks.max` were found above.
        return None
    kind = key.split(".", 1)[0]
    if kind in _CLIENT_KINDS and "." in key:
        return (
            f"has no effect at the top level; write <cluster>.{key} for each cluster that needs it"
        )
    if key in _WORKER_NAMES or key.startswith(("rest.", "admin.listeners")):
        return f"has no effect at the top level; write <target cluster>.{key}"
    if key in _FLOW_NAMES or key.startswith((*_FLOW_PREFIXES, "source.", "target.")):
        return f"has no effect at the top level; write <source>-><target>.{key}"
    prefix = key.split(".", 1)[0]
    alike = difflib.get_close_matches(prefix, clusters, 1, _LIKENESS)
    if alike and "." in key:
        return f"is unknown; did you mean {alike[0]}.{key.split('.', 1)[1]}?"
    return _unknown(key, CONNECTOR_KEY_NAMES | MAKER_KEY_NAMES | CLIENT_CONFIG_NAMES)


def _cluster_problem(key: str, alias: str, props: Mapping[str, Setting]) -> str | None:
    kind, _, rest = key.partition(".")
    if kind in _CLIENT_KINDS and rest and key not in _WORKER_NAMES:
        return _client_problem(kind, rest)
    if key in CLIENT_CONFIG_NAMES | _WORKER_NAMES or key.startswith(_WORKER_PREFIXES):
        beaten = key.startswith(WORKER_FAMILIES) and key in props
        return f"has no effect: {key} at the top level overrides it" if beaten else None
    if key in CONNECTOR_KEY_NAMES | _FLOW_NAMES or key.startswith(_FLOW_PREFIXES):
        return f"has no effect for a cluster; write <source>-><target>.{key} for a flow of {alias}"
    if key in MAKER_KEY_NAMES | _INTERNAL_REST_NAMES:
        return f"has no effect for a cluster; write {key} at the top level"
    return _unknown(key, CLIENT_CONFIG_NAMES | _WORKER_NAMES, f"{alias}.")


def _flow_problem(key: str, flow: Flow) -> str | None:
    if key == "connector.class":
        return _OWN_CLASS
    if key in CONNECTOR_KEY_NAMES | _FLOW_NAMES or key.startswith(_FLOW_PREFIXES):
        return None
    for override in (f"{kind}.override." for kind in _CLIENT_KINDS):
        if key.startswith(override):
            return _client_problem(override.split(".", 1)[0], key.removeprefix(override))
    for side in ("source", "target"):
        if key.startswith(f"{side}.cluster."):
            return _side_problem(key.removeprefix(f"{side}.cluster."), side, flow)
        for kind in _CLIENT_KINDS:
            if key.startswith(f"{side}.{kind}."):
                return _client_problem(kind, key.removeprefix(f"{side}.{kind}."))
    kind, _, rest = key.partition(".")
    if kind == "producer" and rest:
        return (
            "applies only to the producer of offset syncs; for copied records write "
            f"{flow}.producer.override.{rest} or {flow.target}.producer.{rest}"
        )
    if kind in _CLIENT_KINDS and rest:
        return _client_problem(kind, rest)
    if key in _WORKER_NAMES or key.startswith(_WORKER_PREFIXES):
        return f"does not apply to the worker; write {flow.target}.{key}"
    return _unknown(key, CONNECTOR_KEY_NAMES | _FLOW_NAMES, f"{flow}.")


def _side_problem(name: str, side: str, flow: Flow) -> str | None:
    if name in CLIENT_CONFIG_NAMES or name == "alias":
        return None
    alias = flow.source if side == "source" else flow.target
    return (
        f"has no effect: only bootstrap and security properties of {side}.cluster.* are used; "
        f"write {flow}.{side}.<consumer, producer or admin>.{name}, or {alias}.<...>.{name}"
    )


def _client_problem(kind: str, name: str) -> str | None:
    known = _CLIENT_NAMES[kind]
    return None if name in known else _unknown(name, known, f"...{kind}.")


def _unknown(key: str, known: Collection[str], prefix: str = "") -> str:
    alike = difflib.get_close_matches(key, known, 1, _LIKENESS)
    meant = f"; did you mean {prefix}{alike[0]}?" if alike else ""
    return f"is unknown and has no effect{meant}"
