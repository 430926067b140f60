"""Translates Strimzi's KafkaMirrorMaker2 resource for Connect workers: the properties of a worker,
and each connector's config, as the operator writes them.

With the operator's group and topics, a worker takes over its connectors and their offsets. In
another group the connectors are created by REST. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.errors import ConfigError
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.strimzi import DEPLOYMENT
from connectors.mirrormaker.config.strimzi_clusters import (
    CONNECTORS,
    PATTERNS,
    SECRETS_DIRECTORY,
    ClusterTranslation,
    Mirror,
    property_text,
    resource_spec,
)

__all__ = ["ImportedConnector", "ImportedWorkers", "translate_for_workers"]

_FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
_CLIENT = re.compile(r"(source|target)\.(?:admin|consumer|producer)\.")
_STATES = {"paused": "PAUSED", "stopped": "STOPPED"}


@dataclass(frozen=True, slots=True)
class ImportedConnector:
    """A connector to create. `initial_state`: None where it is to run."""

    name: str
    config: Mapping[str, str]
    initial_state: str | None = None

    def body(self) -> dict[str, object]:
        """Return the body of POST /connectors."""
        state = {} if self.initial_state is None else {"initial_state": self.initial_state}
        return {"name": self.name, **state, "config": dict(self.config)}


@dataclass(frozen=True, slots=True)
class ImportedWorkers:
    """The worker's properties, the connectors, and one sentence for each setting that was left
    out."""

    worker: Mapping[str, str]
    connectors: list[ImportedConnector]
    left_out: list[str]


def translate_for_workers(
    resource: Mapping[str, Any], secrets: str = SECRETS_DIRECTORY
) -> ImportedWorkers:
    """Translate a resource. `secrets`: the directory that has one directory for each secret. Raises
    `ConfigError` if it is no such resource, or its mirrors have several targets."""
    clusters = ClusterTranslation(resource_spec(resource), secrets)
    mirrors = list(clusters.mirrors(clusters.clusters()))
    targets = sorted({mirror.target for mirror in mirrors})
    if len(targets) != 1:
        raise ConfigError(
            f"The mirrors go to {', '.join(targets)}, but Connect workers write to one cluster: "
            "import it without --workers, for dedicated mode"
        )
    flows = {f"{mirror.flow}.enabled": "true" for mirror in mirrors}
    # Without providers, so that references to secrets stay what they are.
    config = MirrorMakerConfig.from_properties(
        {"clusters": ", ".join(_aliases(mirrors)), **clusters.properties, **flows}
    )
    connectors = [
        _connector(clusters, config, mirror, key)
        for mirror in mirrors
        for key in CONNECTORS
        if mirror.fields.get(key) is not None
    ]
    for mirror in mirrors:
        known = {*PATTERNS, *CONNECTORS, "sourceCluster", "targetCluster", "source"}
        for key in sorted(mirror.fields.keys() - known):
            clusters.left_out.append(f"{mirror.flow}: {key}: {mirror.fields[key]}")
    for key in sorted(clusters.spec.keys() - {"clusters", "mirrors", "target", "connectCluster"}):
        clusters.left_out.append(f"spec.{key}: {DEPLOYMENT.get(key, 'no counterpart')}")
    return ImportedWorkers(_worker(clusters, config, mirrors[0]), connectors, clusters.left_out)


def _aliases(mirrors: list[Mirror]) -> list[str]:
    found = [mirror.source for mirror in mirrors] + [mirrors[0].target]
    return list(dict.fromkeys(found))


def _worker(
    clusters: ClusterTranslation, config: MirrorMakerConfig, mirror: Mirror
) -> dict[str, str]:
    effective = config.effective_worker(mirror.source, mirror.target)
    found = {key: setting.value for key, setting in effective.items()}
    # Those of dedicated mode.
    del found["client.id"], found["offset.flush.interval.ms"]
    found |= clusters.worker_names(mirror.target)
    # The operator's workers have the first; configs that they stored may refer to it.
    providers = clusters.providers()
    names = ["file", *providers.get("config.providers", "").split()]
    found |= {"config.providers.file.class": _FILE_PROVIDER, **providers}
    found["config.providers"] = ", ".join(names)
    if any(key.endswith(".ssl.truststore.location") for key in clusters.properties):
        found["connector.client.allowed.store.directories"] = clusters.secrets
    return found


def _connector(
    clusters: ClusterTranslation, config: MirrorMakerConfig, mirror: Mirror, key: str
) -> ImportedConnector:
    given, kind = mirror.fields[key], CONNECTORS[key]
    name = f"{mirror.flow}.{kind}"
    made = _without_repetitions(config.connector_config(mirror.source, mirror.target, kind))
    made.pop("enabled", None)
    made |= {"name": name, **mirror.patterns()}
    if given.get("tasksMax") is not None:
        made["tasks.max"] = property_text(given["tasksMax"])
    made |= {each: property_text(value) for each, value in (given.get("config") or {}).items()}
    state = str(given.get("state") or ("paused" if given.get("pause") else "running"))
    for each in sorted(given.keys() - {"tasksMax", "config", "state", "pause"}):
        reason = "restart failed tasks by REST" if each == "autoRestart" else given[each]
        clusters.left_out.append(f"{name}: {each}: {reason}")
    return ImportedConnector(name, made, _STATES.get(state))


def _without_repetitions(config: Mapping[str, str]) -> dict[str, str]:
    """Leave out what each client of a cluster has from `source.cluster.` and `target.cluster.`."""
    return {
        key: value
        for key, value in config.items()
        if config.get(_CLIENT.sub(r"\1.cluster.", key)) != value or not _CLIENT.match(key)
    }
